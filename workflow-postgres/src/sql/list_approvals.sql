-- Called by: read.rs. $1 is one run, or NULL for all.
-- Guarantees: returns the approvals that runs wait for which have not ended, the longest waiting
-- first.
SELECT r.id, r.workflow_name, l.version, l.queue, a.step_key, a.output, a.started_at
FROM {schema}.step_attempts AS a
JOIN {schema}.workflow_runs AS r ON r.id = a.run_id
LEFT JOIN {schema}.workflow_lanes AS l ON l.id = r.lane_id
WHERE a.kind = 'approval' AND a.status = 'running' AND ($1::uuid IS NULL OR a.run_id = $1)
  AND r.status IN ('pending', 'running', 'parked')
ORDER BY a.started_at, r.id, a.step_key
LIMIT $2
