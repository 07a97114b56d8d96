-- Called by: room.rs. $1 are queues, $2 a gate for each, or NULL for all of the queue, and $3 a
-- number for each.
-- Guarantees: counts the runs that wait there and have not begun, by the index of due runs and to
-- at most the number, in the order of the places. Reads one entry more for each lane there, also
-- for a lane behind a gate.
SELECT CASE
    WHEN asked.gate IS NULL THEN (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM (SELECT l.id FROM {schema}.workflow_lanes AS l WHERE l.queue = asked.queue OFFSET 0) AS lane
            CROSS JOIN LATERAL (
                SELECT r.id FROM {schema}.workflow_runs AS r
                WHERE r.lane_id = lane.id AND r.rank > 0 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
                ORDER BY r.rank, r.available_at, r.id
                LIMIT asked.at_most
            ) AS waiting
            LIMIT asked.at_most
        ) AS counted
    ) ELSE (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM (
                SELECT g.id FROM {schema}.workflow_gates AS g WHERE g.queue = asked.queue AND g.gate = asked.gate OFFSET 0
            ) AS behind
            CROSS JOIN LATERAL (
                SELECT t.lane_id FROM {schema}.workflow_turns AS t WHERE t.gate_id = behind.id OFFSET 0
            ) AS lane
            CROSS JOIN LATERAL (
                SELECT r.id FROM {schema}.workflow_runs AS r
                WHERE r.lane_id = lane.lane_id AND r.rank > 0 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
                ORDER BY r.rank, r.available_at, r.id
                LIMIT asked.at_most
            ) AS waiting
            LIMIT asked.at_most
        ) AS counted
    )
END AS waiting
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS asked(queue, gate, at_most, number)
ORDER BY asked.number
