-- Called by: statistics.rs.
-- Guarantees: the groups of failures, those that failed last first, at most ?1.
SELECT workflow_name, kind, step, message, count, first_at, last_at, first_version, last_run_id
FROM workflow_failures
ORDER BY last_at DESC
LIMIT +?1
