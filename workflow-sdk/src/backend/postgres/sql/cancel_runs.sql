-- Called by: settle.rs, with runs that lock_runs.sql has locked.
-- Guarantees: a run that a worker holds is only asked, never taken; an ended run stays as it is. A pause
-- ends, so that a worker can do what the cancel asks for. Answers for each run what
-- it became, and what it was if nothing was changed.
WITH changed AS (
    UPDATE {schema}.workflow_runs AS r
    SET status = CASE WHEN r.status = 'running' THEN 'running' ELSE 'canceled' END,
        wakes = CASE WHEN r.status = 'running' THEN r.wakes + 1 ELSE r.wakes END,
        error = CASE WHEN r.status = 'running' THEN r.error END,
        completed_at = CASE WHEN r.status = 'running' THEN NULL ELSE {now} END,
        cancel_requested_at = COALESCE(r.cancel_requested_at, {now}),
        paused_at = NULL
    WHERE r.id = ANY ($2::uuid[]) AND r.status IN ('pending', 'running', 'parked')
    RETURNING r.id, r.status
)
SELECT was.id, changed.status AS became, was.status AS was
FROM {schema}.workflow_runs AS was
LEFT JOIN changed ON changed.id = was.id
WHERE was.id = ANY ($2::uuid[])
