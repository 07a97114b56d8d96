-- Called by: room.rs. ?1 is a queue, ?2 a number.
-- Guarantees: counts the runs that wait in the queue and have not begun, by the index of due runs
-- and to at most that number. Reads one entry more for each lane of the queue, also for a lane
-- behind a gate.
SELECT count(*)
FROM (
    SELECT 1 FROM workflow_lanes AS l CROSS JOIN workflow_runs AS r
    WHERE l.queue = ?1 AND r.lane_id = l.id AND r.rank > 0 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
    LIMIT +?2
)
