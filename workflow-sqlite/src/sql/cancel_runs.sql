-- Called by: ownerless.rs.
-- Guarantees: a run that was never claimed ends now. Another run is asked to end, once, and is due
-- now unless a worker holds it, also if it was paused. A second request changes nothing, so a
-- commit whose reply was lost may be applied again. An ended run stays as it is.
UPDATE workflow_runs
SET cancel_requested_at = coalesce(cancel_requested_at, ?2),
    wakes = wakes + (epoch > 0 AND cancel_requested_at IS NULL),
    available_at = CASE WHEN epoch > 0 AND status <> 'running' AND cancel_requested_at IS NULL
                        THEN min(available_at, ?2) ELSE available_at END,
    paused_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE paused_at END,
    completed_at = CASE WHEN epoch > 0 THEN NULL ELSE max(?2, created_at) END,
    error = CASE WHEN epoch > 0 THEN error ELSE NULL END,
    status = CASE WHEN epoch > 0 THEN status ELSE 'canceled' END
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('pending', 'running', 'parked')
