-- Called by: line_rate.rs, in a batch that lets bodies begin. $1 are limits, $2 a key for each,
-- whose lines lock_lines.sql has locked, $3 times.
-- Guarantees: the rate of each line is used up until its time. Waits only for a transaction that
-- forgets the row, which waits for nothing.
INSERT INTO {schema}.workflow_line_rates (limit_name, key, used_until)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::bigint[])
ON CONFLICT (limit_name, key) DO UPDATE SET used_until = excluded.used_until
