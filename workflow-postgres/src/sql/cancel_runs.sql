-- Called by: ownerless.rs, with runs that lock_runs.sql has locked.
-- Guarantees: a run that was never claimed ends now. Another run is asked to end, once, and is due
-- now unless a worker holds it, also if it was paused. A second request changes nothing, so a
-- commit whose reply was lost may be applied again. An ended run stays as it is. Returns what each
-- run that has not ended became.
UPDATE {schema}.workflow_runs AS r
SET status = CASE WHEN r.epoch > 0 THEN r.status ELSE 'canceled' END,
    wakes = r.wakes + (r.epoch > 0 AND r.cancel_requested_at IS NULL)::integer,
    available_at = CASE WHEN r.epoch > 0 AND r.status <> 'running' AND r.cancel_requested_at IS NULL
                        THEN LEAST(r.available_at, {now}) ELSE r.available_at END,
    paused_at = CASE WHEN r.cancel_requested_at IS NOT NULL THEN r.paused_at END,
    error = CASE WHEN r.epoch > 0 THEN r.error END,
    completed_at = CASE WHEN r.epoch > 0 THEN NULL ELSE GREATEST({now}, r.created_at) END,
    cancel_requested_at = COALESCE(r.cancel_requested_at, {now})
WHERE r.id = ANY ($2::uuid[]) AND r.status IN ('pending', 'running', 'parked')
RETURNING r.id, r.status
