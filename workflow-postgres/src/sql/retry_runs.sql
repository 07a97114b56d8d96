-- Called by: retry.rs, with claims that have passed the fence.
-- Guarantees: the run is pending in its next attempt, never due after its deadline, and due at once
-- if it was canceled meanwhile.
UPDATE {schema}.workflow_runs AS r
SET status = 'pending', worker_id = NULL, attempt = r.attempt + 1, crashes = 0, lone_crashes = NULL, error = f.error,
    available_at = LEAST(GREATEST(CASE WHEN r.cancel_requested_at IS NULL THEN f.until END, {now}), r.deadline_at)
FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) AS f(id, epoch, until, error)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = f.id LIMIT 1
) AS held
WHERE r.ctid = held.place AND r.epoch = f.epoch AND r.status LIKE 'running'
