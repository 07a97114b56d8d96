-- Called by: lease.rs. $2 and $3 are the claims, $4 the lease in microseconds.
-- Guarantees: renews only claims that are current, and returns them. Waits for no lock: it also
-- returns those current claims whose rows another transaction holds, as not extended. Locks in the
-- order of ids, as every batch does.
WITH held AS MATERIALIZED (
    SELECT r.id
    FROM unnest($2::uuid[], $3::bigint[]) AS claim(id, epoch)
    JOIN {schema}.workflow_runs AS r ON r.id = claim.id AND r.epoch = claim.epoch
    WHERE r.status = 'running'
    ORDER BY r.id
    FOR NO KEY UPDATE OF r SKIP LOCKED
), renewed AS (
    UPDATE {schema}.workflow_runs AS r
    SET available_at = LEAST({now} + $4, {far_future})
    FROM held WHERE r.id = held.id
    RETURNING r.id, r.epoch, r.cancel_requested_at, r.paused_at, r.wakes
)
SELECT id, epoch, cancel_requested_at, paused_at, wakes, true AS is_extended
FROM renewed
UNION ALL
SELECT r.id, r.epoch, r.cancel_requested_at, r.paused_at, r.wakes, false
FROM unnest($2::uuid[], $3::bigint[]) AS claim(id, epoch)
JOIN {schema}.workflow_runs AS r ON r.id = claim.id AND r.epoch = claim.epoch
WHERE (SELECT count(*) FROM held) < cardinality($2::uuid[])
  AND r.status = 'running' AND NOT EXISTS (SELECT 1 FROM held WHERE held.id = r.id)
