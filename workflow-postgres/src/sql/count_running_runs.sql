-- Called by: scan.rs, before a list of running runs.
-- Guarantees: counts to {scan_budget} + 1 at most, over the index of running runs.
SELECT count(*) FROM (SELECT 1 FROM {schema}.workflow_runs AS r WHERE r.status = 'running' LIMIT {scan_budget} + 1) AS r
