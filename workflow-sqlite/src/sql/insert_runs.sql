-- Called by: start.rs and fast_path.rs, for the starts of a batch or of an application's own
-- transaction.
-- Guarantees: a run whose id, or whose workflow and key, exists already is left as it is. Returns
-- only the number of new runs, because nearly always all runs are new.
INSERT OR FAIL INTO workflow_runs
    (id, workflow_name, version, queue, status, key, available_at, deadline_at, created_at, depth, parent_run_id,
     parent_step_key, on_parent_end, tags, input)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, 'pending', value ->> 4,
       value ->> 5, value ->> 6, ?, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12
FROM jsonb_each(?)
WHERE true
ON CONFLICT DO NOTHING
