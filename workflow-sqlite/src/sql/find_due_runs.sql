-- Called by: claim.rs and fast_path.rs, once per claim. The time and the limit are passed twice.
-- Guarantees: returns the runs of these lanes that have been due longest: per lane, up to the limit
-- of waiting runs of each rank and up to the limit of running ones whose lease has ended. Each lane
-- is one JSON array, because a row or a statement per run would cost more than finding the run: one
-- array for each rank in order, then one for the running ones, each with [available_at, id]. The
-- lanes come in the order in which they were passed. Reads only the runs that it returns, by the
-- indexes of due and of running runs. The limit is written +?, because SQLite prepares a statement
-- with a bare parameter as limit again at each use.
SELECT (
    SELECT json_group_array(json(found.runs))
    FROM (
        SELECT (
            SELECT json_group_array(json_array(available_at, id))
            FROM (
                SELECT available_at, id
                FROM workflow_runs
                WHERE lane_id = l.id AND rank = known.rank AND available_at <= ?
                  AND status IN ('pending', 'parked') AND paused_at IS NULL
                ORDER BY available_at, id
                LIMIT +?
            )
        ) AS runs
        FROM (SELECT 0 AS rank UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS known
        UNION ALL
        SELECT (
            SELECT json_group_array(json_array(available_at, id))
            FROM (
                SELECT available_at, id
                FROM workflow_runs
                WHERE lane_id = l.id AND available_at <= ? AND status = 'running' AND paused_at IS NULL
                ORDER BY available_at, id
                LIMIT +?
            )
        )
    ) AS found
)
FROM jsonb_each(?) AS lane LEFT JOIN workflow_lanes AS l
    ON l.queue = lane.value ->> 0 AND l.workflow_name = lane.value ->> 1 AND l.version = lane.value ->> 2 AND l.gate = lane.value ->> 3
