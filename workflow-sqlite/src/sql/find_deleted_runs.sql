-- Called by: deletion.rs, inside the write transaction.
-- Guarantees: returns each run that exists, when it ended, and its parent if that has not ended and
-- the step that started the run has no outcome.
SELECT r.id, r.status, r.completed_at,
       (SELECT p.id FROM workflow_runs AS p
        WHERE p.id = r.parent_run_id AND p.status IN ('pending', 'running', 'parked')
          AND EXISTS (SELECT 1 FROM step_attempts AS a
                      WHERE a.run_id = r.parent_run_id AND a.step_key = r.parent_step_key AND a.status = 'running')
       ) AS awaited_by
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r
WHERE r.id = c.value
