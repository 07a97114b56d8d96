-- Called by: claim.rs and fast_path.rs, once a claim. The time and the limit come twice.
-- Guarantees: the runs of these lanes that have been due longest, of those that wait and of those whose lease has ended each up to the
-- limit of each lane, as one JSON array a lane of [available_at, id]: a row or a statement each would cost more than finding them. Reads
-- only what it answers, by the indexes of due and of running runs. The limit is +?, for SQLite prepares a statement again at each use
-- whose limit is a bare parameter.
SELECT (
    SELECT json_group_array(json_array(available_at, id))
    FROM (
        SELECT available_at, id FROM (
            SELECT available_at, id
            FROM workflow_runs
            WHERE queue = lane.value ->> 0 AND workflow_name = lane.value ->> 1 AND version = lane.value ->> 2
              AND available_at <= ? AND status IN ('pending', 'parked') AND paused_at IS NULL
            ORDER BY available_at, id
            LIMIT +?
        )
        UNION ALL
        SELECT available_at, id FROM (
            SELECT available_at, id
            FROM workflow_runs
            WHERE queue = lane.value ->> 0 AND workflow_name = lane.value ->> 1 AND version = lane.value ->> 2
              AND available_at <= ? AND status = 'running' AND paused_at IS NULL
            ORDER BY available_at, id
            LIMIT +?
        )
    )
)
FROM jsonb_each(?) AS lane
