-- Called by: scan.rs, before a list of pending runs.
-- Guarantees: counts the runs that wait, paused ones included, to twice ?1 at most, over the
-- indexes of due and of paused runs.
SELECT (
    SELECT count(*) FROM (
        SELECT 1 FROM workflow_runs INDEXED BY workflow_runs_due
        WHERE status IN ('pending', 'parked') AND paused_at IS NULL LIMIT +?1
    )
) + (
    SELECT count(*) FROM (
        SELECT 1 FROM workflow_runs INDEXED BY workflow_runs_paused WHERE paused_at IS NOT NULL LIMIT +?1
    )
)
