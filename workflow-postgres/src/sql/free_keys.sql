-- Called by: start.rs, before start_runs.sql, with starts that may take the key of a failed or
-- canceled run, in the order of their keys: workflow, key, id, parent and step of the parent. $6
-- are queues.
-- Guarantees: such a run has no key any more. The key of a child is taken from a child of its step
-- alone. Changes nothing for a start that was committed before, and nothing at all if one of the
-- queues bounds how many runs wait. Finds the runs by index.
UPDATE {schema}.workflow_runs AS r
SET key = NULL
FROM (
    SELECT unnest($1::text[]) AS workflow, unnest($2::text[]) AS key, unnest($3::uuid[]) AS id,
           unnest($4::uuid[]) AS parent, unnest($5::text[]) AS step_key
) AS s
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.workflow_name = s.workflow AND o.key = s.key LIMIT 1
) AS held
WHERE r.ctid = held.place AND r.workflow_name = s.workflow AND r.key = s.key AND r.status IN ('failed', 'canceled')
  AND (s.parent IS NULL OR r.parent_run_id = s.parent AND r.parent_step_key = s.step_key)
  AND (SELECT n.id FROM {schema}.workflow_runs AS n WHERE n.id = s.id) IS NULL
  AND NOT EXISTS (
      SELECT FROM {schema}.workflow_queues AS q
      WHERE q.queue = ANY ($6::text[]) AND strpos(COALESCE(q.overridden, q.declared), '"max_waiting"') > 0
  )
