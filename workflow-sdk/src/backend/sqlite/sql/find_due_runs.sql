-- Called by: claim.rs, once for each lane.
-- Guarantees: the lane's runs that have been due longest, as one JSON array of [available_at, id], for a row each would cost more
-- than finding it; reads only what it answers, by the index of due runs.
SELECT json_group_array(json_array(available_at, id))
FROM (
    SELECT available_at, id
    FROM workflow_runs
    WHERE queue = ?1 AND workflow_name = ?2 AND version = ?3 AND available_at <= ?4
      AND status IN ('pending', 'running', 'parked') AND paused_at IS NULL
    ORDER BY available_at, id
    LIMIT ?5
)
