-- Called by: start.rs and fast_path.rs, for the starts of a batch or of an application's own
-- transaction.
-- Guarantees: a run whose id, or whose workflow and key, exists already is left as it is, and a run
-- whose lane has no row is left out. So is a run that asks for room (its value 15 is 1) if its
-- queue bounds how many runs wait: room.rs must count first. Returns only the number of new runs,
-- because nearly always all runs are new.
INSERT OR FAIL INTO workflow_runs
    (id, workflow_name, lane_id, status, key, available_at, deadline_at, created_at, depth, parent_run_id,
     parent_step_key, on_parent_end, tags, input, rank, trace)
SELECT s.value ->> 0, s.value ->> 1, l.id, 'pending', s.value ->> 4, s.value ->> 5, s.value ->> 6, ?, s.value ->> 7,
       s.value ->> 8, s.value ->> 9, s.value ->> 10, s.value ->> 11, s.value ->> 12,
       s.value ->> 13, s.value ->> 16
FROM jsonb_each(?) AS s CROSS JOIN workflow_lanes AS l
WHERE l.queue = s.value ->> 3 AND l.workflow_name = s.value ->> 1 AND l.version = s.value ->> 2
  AND l.gate = s.value ->> 14
  AND (s.value ->> 15 = 0 OR NOT EXISTS (
      SELECT 1 FROM workflow_queues AS q
      WHERE q.queue = s.value ->> 3 AND instr(coalesce(q.overridden, q.declared), '"max_waiting"') > 0
  ))
ON CONFLICT DO NOTHING
