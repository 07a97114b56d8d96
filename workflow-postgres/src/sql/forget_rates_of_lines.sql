-- Called by: line_rate.rs, at the end of a batch that has used rates. $2 is the largest number.
-- Guarantees: only rates that are not used up any more are forgotten, the oldest first. They say
-- the same as no row, so their lines need no lock. Skips rows that another transaction has locked,
-- and so waits for none.
WITH ended AS MATERIALIZED (
    SELECT r.ctid AS place FROM {schema}.workflow_line_rates AS r
    WHERE r.used_until <= {now}
    ORDER BY r.used_until
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.workflow_line_rates AS r USING ended WHERE r.ctid = ended.place
