-- Called by: scan.rs, before a list of running runs.
-- Guarantees: counts to ?1 at most, over the index of running runs.
SELECT count(*) FROM (
    SELECT 1 FROM workflow_runs INDEXED BY workflow_runs_running WHERE status = 'running' LIMIT +?1
)
