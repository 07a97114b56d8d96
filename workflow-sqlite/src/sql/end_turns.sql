-- Called by: gate.rs, after a claim. ?1 holds lanes with gates, each with the end of its turn: 0 if
-- more may be due, with the time to look again if it is later than now, 1 if no more is due, 2 if
-- the gate is full. ?2 is the time, ?3 the time at which no run is due.
-- Guarantees: a gate that may have more is at the end of the line, or sleeps until its time. One
-- that has no more is looked at when its next run is due or the first lease of a running one ends.
WITH ended AS MATERIALIZED (
    SELECT l.id, turn.value ->> 4 AS how, coalesce(turn.value ->> 5, ?2) AS look_at,
        coalesce((
            SELECT r.available_at FROM workflow_runs AS r
            WHERE r.lane_id = l.id AND r.status = 'running' AND r.paused_at IS NULL
            ORDER BY r.available_at
            LIMIT 1
        ), ?3) AS lease_end,
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
        ), ?3) AS next_due
    FROM json_each(?1) AS turn CROSS JOIN workflow_lanes AS l
    WHERE l.queue = turn.value ->> 0 AND l.workflow_name = turn.value ->> 1 AND l.version = turn.value ->> 2 AND l.gate = turn.value ->> 3
)
UPDATE workflow_turns
SET open_at = iif(ended.how = 1, max(?2, min(ended.next_due, ended.lease_end)), min(ended.look_at, ended.lease_end)),
    full_until = iif(ended.how = 2, ended.lease_end, NULL)
FROM ended WHERE workflow_turns.lane_id = ended.id
