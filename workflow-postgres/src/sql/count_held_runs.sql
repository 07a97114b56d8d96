-- Called by: count.rs.
-- Guarantees: counts at most $1 running runs by their workers, over the index of running runs.
SELECT r.worker_id AS id, count(*) AS runs
FROM (SELECT r.worker_id FROM {schema}.workflow_runs AS r WHERE r.status = 'running' LIMIT $1) AS r
GROUP BY r.worker_id
ORDER BY r.worker_id
