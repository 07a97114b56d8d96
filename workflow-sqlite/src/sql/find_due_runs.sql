-- Called by: claim.rs and fast_path.rs, once per claim. The time and the limit are passed twice.
-- Guarantees: returns the runs of these lanes that have been due longest: per lane, up to the limit
-- of waiting runs and up to the limit of running ones whose lease has ended. Each lane is one JSON
-- array of [available_at, id], because a row or a statement per run would cost more than finding
-- the run. The lanes come in the order in which they were passed. Reads only the runs that it
-- returns, by the indexes of due and of running runs. The limit is written +?, because SQLite
-- prepares a statement with a bare parameter as limit again at each use.
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
