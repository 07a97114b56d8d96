-- Called by: statistics.rs.
-- Guarantees: the groups of failures, those that failed last first, at most $1.
SELECT f.workflow_name, f.kind, f.step, f.message, f.count, f.first_at, f.last_at, f.first_version, f.last_run_id
FROM {schema}.workflow_failures AS f
ORDER BY f.last_at DESC
LIMIT $1
