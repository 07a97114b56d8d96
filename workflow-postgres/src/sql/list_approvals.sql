-- Called by: read.rs. $1, $2 and $3 are the time, run and step of the wait before, $4 is a number,
-- $5 says whether decisions are listed, $6, $7 and $8 are the last wait that is looked at.
-- Guarantees: the approvals and decisions that runs wait for which have not ended, between these
-- waits, the longest waiting first. The conditions are those of the index, which is read in order.
SELECT r.id, r.workflow_name, r.tags, l.version, l.queue, a.step_key, a.kind, a.output, a.started_at
FROM {schema}.step_attempts AS a
JOIN {schema}.workflow_runs AS r ON r.id = a.run_id
LEFT JOIN {schema}.workflow_lanes AS l ON l.id = r.lane_id
WHERE a.status = 'running'
  AND (a.kind = 'approval' OR (a.kind = 'signal' AND strpos('/' || a.step_key, '/decision:') > 0))
  AND (a.started_at, a.run_id, a.step_key) > ($1, $2, $3)
  AND (a.started_at, a.run_id, a.step_key) <= ($6, $7, $8) AND ($5 OR a.kind = 'approval')
  AND r.status IN ('pending', 'running', 'parked')
ORDER BY a.started_at, a.run_id, a.step_key
LIMIT $4
