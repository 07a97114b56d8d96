-- Called by: line_rate.rs, at the end of a batch that has used rates. ?1 is the time, ?2 the
-- largest number.
-- Guarantees: only rates that are not used up any more are forgotten, the oldest first. They say
-- the same as no row.
DELETE FROM workflow_line_rates
WHERE (limit_name, key) IN (
    SELECT limit_name, key FROM workflow_line_rates WHERE used_until <= ?1 ORDER BY used_until LIMIT +?2
)
