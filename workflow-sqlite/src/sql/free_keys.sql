-- Called by: start.rs, before insert_runs.sql, with starts that may take the key of a failed or
-- canceled run: workflow, key, id, parent and step of the parent. ?2 holds queues.
-- Guarantees: such a run has no key any more. The key of a child is taken from a child of its step
-- alone. Changes nothing for a start that was committed before, and nothing at all if one of the
-- queues bounds how many runs wait. Finds the runs by index.
UPDATE workflow_runs
SET key = NULL
FROM jsonb_each(?1) AS s
WHERE workflow_name = s.value ->> 0 AND workflow_runs.key = s.value ->> 1 AND +status IN ('failed', 'canceled')
  AND (s.value ->> 3 IS NULL OR parent_run_id = s.value ->> 3 AND parent_step_key = s.value ->> 4)
  AND NOT EXISTS (SELECT 1 FROM workflow_runs AS n WHERE n.id = s.value ->> 2)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(?2) AS asked CROSS JOIN workflow_queues AS q
      WHERE q.queue = asked.value AND instr(coalesce(q.overridden, q.declared), '"max_waiting"') > 0
  )
