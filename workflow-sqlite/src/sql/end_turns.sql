-- Called by: gate.rs, after a claim. ?1 holds lanes with gates, each with the end of its turn (0 if
-- more may be due, 1 if no more is due, 2 if the gate is full), the time to look again, and how
-- many runs the gate has given in the turn that goes on. ?2 is the time at which no run is due.
-- Guarantees: claims look at each gate again at its time, or when the first lease of a running run
-- ends. At one that has no more: when its next run is due. At a full one: when a slot is free.
WITH ended AS MATERIALIZED (
    SELECT l.id, turn.value ->> 4 AS how, turn.value ->> 5 AS look_at, turn.value ->> 6 AS given,
        coalesce((
            SELECT r.available_at FROM workflow_runs AS r
            WHERE r.lane_id = l.id AND r.status = 'running' AND r.paused_at IS NULL
            ORDER BY r.available_at
            LIMIT 1
        ), ?2) AS lease_end,
        coalesce((
            SELECT min(at)
            FROM (
                SELECT (
                    SELECT r.available_at FROM workflow_runs AS r
                    WHERE r.lane_id = l.id AND r.rank = known.rank AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
                    ORDER BY r.available_at
                    LIMIT 1
                ) AS at
                FROM (SELECT 0 AS rank UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS known
            )
        ), ?2) AS next_due
    FROM json_each(?1) AS turn CROSS JOIN workflow_lanes AS l
    WHERE l.queue = turn.value ->> 0 AND l.workflow_name = turn.value ->> 1 AND l.version = turn.value ->> 2 AND l.gate = turn.value ->> 3
)
UPDATE workflow_turns
SET open_at = iif(ended.how = 1, max(ended.look_at, min(ended.next_due, ended.lease_end)), min(ended.look_at, ended.lease_end)),
    full_until = iif(ended.how = 2, ended.lease_end, NULL), given = ended.given
FROM ended WHERE workflow_turns.lane_id = ended.id
