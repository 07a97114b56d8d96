-- Called by: start.rs, with rows sorted by (workflow, key): concurrent inserts of the same keys wait for each other in one order.
-- Guarantees: one run a key and one a id; a row that is there stays as it is. Answers only how
-- many are new: nearly always all.
INSERT INTO {schema}.workflow_runs
    (id, workflow_name, version, queue, status, input, key, available_at, deadline_at, created_at, tags, depth,
     parent_run_id, parent_step_key, on_parent_end)
SELECT s.id, s.workflow, s.version, s.queue, 'pending', s.input, s.key,
       LEAST(t.start, t.deadline), t.deadline, {now}, s.tags, s.depth,
       s.parent_run_id, s.parent_step_key, s.on_parent_end
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bigint[], $14::uuid[], $15::text[],
            $16::text[])
    AS s(id, workflow, version, queue, input, key, start_at, start_delay, deadline_at, deadline_delay, tags, depth,
         parent_run_id, parent_step_key, on_parent_end)
CROSS JOIN LATERAL (
    SELECT CASE WHEN s.start_delay IS NULL THEN s.start_at
                ELSE LEAST({now} + s.start_delay, {far_future}) END AS start,
           CASE WHEN s.deadline_delay IS NULL THEN s.deadline_at
                ELSE LEAST({now} + s.deadline_delay, {far_future}) END AS deadline
) AS t
ON CONFLICT DO NOTHING
