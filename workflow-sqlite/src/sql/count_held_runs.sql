-- Called by: count.rs.
-- Guarantees: counts at most ?1 running runs by their workers, over the index of running runs.
SELECT worker_id AS id, count(*) AS runs
FROM (SELECT worker_id FROM workflow_runs INDEXED BY workflow_runs_running WHERE status = 'running' LIMIT +?1)
GROUP BY worker_id
ORDER BY worker_id
