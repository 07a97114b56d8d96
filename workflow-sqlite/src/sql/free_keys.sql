-- Called by: start.rs, before insert_runs.sql, with starts that may take the key of a failed or
-- canceled run: workflow, key and id. ?2 holds queues.
-- Guarantees: such a run has no key any more. Changes nothing for a start that was committed
-- before, and nothing at all if one of the queues bounds how many runs wait. Finds the runs by
-- index.
UPDATE workflow_runs
SET key = NULL
FROM jsonb_each(?1) AS s
WHERE workflow_name = s.value ->> 0 AND workflow_runs.key = s.value ->> 1 AND +status IN ('failed', 'canceled')
  AND NOT EXISTS (SELECT 1 FROM workflow_runs AS n WHERE n.id = s.value ->> 2)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(?2) AS asked CROSS JOIN workflow_queues AS q
      WHERE q.queue = asked.value AND instr(coalesce(q.overridden, q.declared), '"max_waiting"') > 0
  )
