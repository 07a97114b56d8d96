-- Called by: read.rs. ?1 is one run, or NULL for all.
-- Guarantees: approvals that a run which has not ended waits for, the longest waiting first.
SELECT r.id, r.workflow_name, l.version, l.queue, a.step_key, a.output, a.started_at
FROM step_attempts AS a CROSS JOIN workflow_runs AS r LEFT JOIN workflow_lanes AS l ON l.id = r.lane_id
WHERE a.kind = 'approval' AND a.status = 'running' AND (?1 IS NULL OR a.run_id = ?1)
  AND r.id = a.run_id AND r.status IN ('pending', 'running', 'parked')
ORDER BY a.started_at, r.id, a.step_key
LIMIT +?2
