-- Called by: line_rate.rs. $2 are limits, $3 a key for each. In a batch it is a later statement
-- than lock_lines.sql, so it sees all that was used before.
-- Guarantees: for each line, in their order, until when its rate is used up, and the time.
SELECT {now} AS now,
       (SELECT r.used_until FROM {schema}.workflow_line_rates AS r
        WHERE r.limit_name = asked.limit_name AND r.key = asked.key) AS used_until
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS asked(limit_name, key, number)
ORDER BY asked.number
