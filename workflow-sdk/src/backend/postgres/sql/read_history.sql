-- Called by: read.rs, once a claim.
-- Guarantees: outcomes in the order in which they were delivered, then what has no place in it, in a fixed order.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.output, a.error, a.epoch, a.started_at, a.completed_at
FROM {schema}.step_attempts AS a
WHERE a.run_id = $1
ORDER BY a.position NULLS LAST, a.step_key, a.attempt
