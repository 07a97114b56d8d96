-- Called by: placement.rs, with runs that no worker holds, and whose new lanes have rows: id, queue,
-- workflow, version, gate, rank.
-- Guarantees: each run waits in this lane with this rank, and is due when it was. The time is set
-- because a trigger looks for it: claims then look at the new gate.
UPDATE workflow_runs
SET lane_id = l.id, rank = s.value ->> 5, available_at = workflow_runs.available_at
FROM json_each(?1) AS s CROSS JOIN workflow_lanes AS l
WHERE workflow_runs.id = s.value ->> 0 AND +workflow_runs.status IN ('pending', 'parked')
  AND l.queue = s.value ->> 1 AND l.workflow_name = s.value ->> 2 AND l.version = s.value ->> 3
  AND l.gate = s.value ->> 4
