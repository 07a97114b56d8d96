-- Called by: read.rs. As list_approvals.sql, and $6 is a run.
-- Guarantees: returns the rows of list_approvals.sql that belong to run $6. It sorts them: one run
-- has few waits.
SELECT r.id, r.workflow_name, r.tags, l.version, l.queue, a.step_key, a.kind, a.output, a.started_at
FROM {schema}.step_attempts AS a
JOIN {schema}.workflow_runs AS r ON r.id = a.run_id
LEFT JOIN {schema}.workflow_lanes AS l ON l.id = r.lane_id
WHERE a.run_id = $6 AND a.status = 'running'
  AND (a.kind = 'approval' OR (a.kind = 'signal' AND strpos('/' || a.step_key, '/decision:') > 0))
  AND (a.started_at, a.run_id, a.step_key) > ($1, $2, $3) AND ($5 OR a.kind = 'approval')
  AND r.status IN ('pending', 'running', 'parked')
ORDER BY a.started_at, a.run_id, a.step_key
LIMIT $4
