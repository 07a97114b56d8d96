-- Called by: scan.rs, before a list of pending runs.
-- Guarantees: counts the runs that wait, paused ones included, to a little more than
-- {scan_budget} / 10 at most, over the indexes of due and of paused runs.
SELECT (
    SELECT count(*) FROM (
        SELECT 1 FROM {schema}.workflow_runs AS r
        WHERE r.status IN ('pending', 'parked') AND r.paused_at IS NULL LIMIT {scan_budget} / 10 + 1
    ) AS due
) + (
    SELECT count(*) FROM (
        SELECT 1 FROM {schema}.workflow_runs AS p WHERE p.paused_at IS NOT NULL LIMIT {scan_budget} / 10 + 1
    ) AS paused
)
