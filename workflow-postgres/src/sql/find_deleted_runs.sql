-- Called by: deletion.rs, with runs that lock_families.sql has locked together with their parents.
-- Guarantees: returns each run that exists, when it ended, and its parent if that has not ended and
-- the step that started the run has no outcome.
SELECT r.id, r.status, r.completed_at,
       (SELECT p.id FROM {schema}.workflow_runs AS p
        WHERE p.id = r.parent_run_id AND p.status IN ('pending', 'running', 'parked')
          AND (SELECT a.attempt FROM {schema}.step_attempts AS a
               WHERE a.run_id = r.parent_run_id AND a.step_key = r.parent_step_key AND a.status = 'running'
               LIMIT 1) IS NOT NULL) AS awaited_by
FROM {schema}.workflow_runs AS r
WHERE r.id = ANY ($1::uuid[])
