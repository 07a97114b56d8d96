-- Called by: ownerless.rs.
-- Guarantees: fails runs past their deadline that no worker holds, up to the limit, and reads no
-- others but the running ones. A run that was claimed before is left until ?4 to the workers that
-- know it, and for as long as a recorded one serves its lane. A running run is taken only if its
-- worker is not recorded any more, and if its lease had ended by ?4; a claim on it is lost. A run
-- that failed by itself and is being undone is left alone.
WITH served(queue, workflow_name, version) AS (
    SELECT lane.value ->> 'queue', lane.value ->> 'workflow', lane.value ->> 'version'
    FROM workflow_workers AS w CROSS JOIN json_each(iif(json_valid(w.lanes), w.lanes, '[]')) AS lane
    WHERE lane.type = 'object'
)
UPDATE workflow_runs
SET epoch = epoch + (status = 'running'), status = 'failed', worker_id = NULL, error = ?2,
    completed_at = max(?1, created_at, coalesce(started_at, 0)), paused_at = NULL
WHERE id IN (
    SELECT id FROM (
        SELECT id FROM workflow_runs
        WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked') AND deadline_at <= ?1
          AND (epoch = 0 OR deadline_at <= ?4 AND NOT EXISTS (
              SELECT 1 FROM workflow_lanes AS l
              WHERE l.id = lane_id
                AND (l.queue, l.workflow_name, l.version) IN (SELECT s.queue, s.workflow_name, s.version FROM served AS s)
          ) AND NOT (
              EXISTS (SELECT 1 FROM step_attempts AS a WHERE a.run_id = workflow_runs.id AND a.kind = 'compensation')
              AND NOT EXISTS (SELECT 1 FROM step_attempts AS a WHERE a.run_id = workflow_runs.id AND a.kind = 'interruption')
          ))
        ORDER BY deadline_at, id
        LIMIT +?3
    )
    UNION ALL
    SELECT id FROM (
        SELECT r.id FROM workflow_runs AS r INDEXED BY workflow_runs_running
        WHERE r.status = 'running' AND r.available_at <= ?4 AND r.deadline_at <= ?4
          AND NOT EXISTS (SELECT 1 FROM workflow_workers AS w WHERE w.id = r.worker_id)
          AND NOT EXISTS (
              SELECT 1 FROM workflow_lanes AS l
              WHERE l.id = r.lane_id
                AND (l.queue, l.workflow_name, l.version) IN (SELECT s.queue, s.workflow_name, s.version FROM served AS s)
          )
          AND NOT (
              EXISTS (SELECT 1 FROM step_attempts AS a WHERE a.run_id = r.id AND a.kind = 'compensation')
              AND NOT EXISTS (SELECT 1 FROM step_attempts AS a WHERE a.run_id = r.id AND a.kind = 'interruption')
          )
        LIMIT +?3
    )
    LIMIT +?3
)
RETURNING id
