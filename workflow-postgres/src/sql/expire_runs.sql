-- Called by: ownerless.rs. $2 is the error, $3 the limit, $4 the patience in microseconds with runs
-- that were claimed before.
-- Guarantees: fails only runs past their deadline that no worker holds. A run that was claimed
-- before is left $4 after its deadline to the workers that know it, and for as long as a recorded
-- one serves its lane. A running run is taken only if its worker has no row (ownership.rs), and $4
-- after its lease; a claim on it is lost. A run that failed by itself and is being undone is left
-- alone. Skips runs that another transaction holds.
WITH served AS MATERIALIZED (
    SELECT COALESCE(recorded.lane ->> 'queue', '') AS queue, COALESCE(recorded.lane ->> 'workflow', '') AS workflow,
           COALESCE(recorded.lane ->> 'version', '') AS version
    FROM (
        SELECT jsonb_array_elements(CASE WHEN w.lanes LIKE '[%' THEN w.lanes::jsonb ELSE '[]'::jsonb END) AS lane
        FROM {schema}.workflow_workers AS w
    ) AS recorded
), late AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.deadline_at IS NOT NULL AND r.deadline_at <= {now} AND r.status IN ('pending', 'parked')
      AND (r.epoch = 0 OR r.deadline_at <= {now} - $4 AND (
          SELECT (l.queue, l.workflow_name, l.version) NOT IN (SELECT s.queue, s.workflow, s.version FROM served AS s)
          FROM {schema}.workflow_lanes AS l WHERE l.id = r.lane_id
      ) AND NOT (
          (SELECT a.kind FROM {schema}.step_attempts AS a WHERE a.run_id = r.id AND a.kind = 'compensation' LIMIT 1) IS NOT NULL
          AND (SELECT a.kind FROM {schema}.step_attempts AS a WHERE a.run_id = r.id AND a.kind = 'interruption' LIMIT 1) IS NULL
      ))
    ORDER BY r.deadline_at
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
), left_behind AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.status = 'running' AND r.available_at <= {now} - $4 AND r.deadline_at <= {now} - $4
      AND (SELECT w.id FROM {schema}.workflow_workers AS w WHERE w.id = r.worker_id) IS NULL
      AND (
          SELECT (l.queue, l.workflow_name, l.version) NOT IN (SELECT s.queue, s.workflow, s.version FROM served AS s)
          FROM {schema}.workflow_lanes AS l WHERE l.id = r.lane_id
      )
      AND NOT (
          (SELECT a.kind FROM {schema}.step_attempts AS a WHERE a.run_id = r.id AND a.kind = 'compensation' LIMIT 1) IS NOT NULL
          AND (SELECT a.kind FROM {schema}.step_attempts AS a WHERE a.run_id = r.id AND a.kind = 'interruption' LIMIT 1) IS NULL
      )
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.workflow_runs AS r
SET epoch = r.epoch + (r.status = 'running')::integer, status = 'failed', worker_id = NULL, error = $2,
    completed_at = GREATEST({now}, r.created_at, r.started_at), paused_at = NULL
WHERE r.id = ANY (ARRAY(SELECT late.id FROM late UNION ALL SELECT left_behind.id FROM left_behind LIMIT $3))
RETURNING r.id
