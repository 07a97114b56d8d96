-- Called by: single.rs, with runs that have not begun, and whose new lanes have rows: id, queue,
-- workflow, version, rank, input, tags, start, deadline, the longest time from the creation of the
-- run to its start, and the gate.
-- Guarantees: each run is as if it had been started now with these values, except its id, its
-- creation and its single key.
UPDATE workflow_runs
SET lane_id = l.id, rank = s.value ->> 4, input = s.value ->> 5, tags = s.value ->> 6, deadline_at = s.value ->> 8,
    available_at = min(s.value ->> 7, coalesce(workflow_runs.created_at + (s.value ->> 9), s.value ->> 7),
                       coalesce(s.value ->> 8, s.value ->> 7))
FROM json_each(?1) AS s CROSS JOIN workflow_lanes AS l
WHERE workflow_runs.id = s.value ->> 0 AND workflow_runs.status = 'pending' AND workflow_runs.epoch = 0
  AND l.queue = s.value ->> 1 AND l.workflow_name = s.value ->> 2 AND l.version = s.value ->> 3
  AND l.gate = s.value ->> 10
