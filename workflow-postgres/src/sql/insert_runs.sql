-- Called by: start.rs, with rows sorted by (workflow, key): concurrent inserts of the same keys wait for each other in one order.
-- Guarantees: one run a key and one a id; a row that is there stays as it is. Answers only how
-- many are new: nearly always all.
INSERT INTO {schema}.workflow_runs
    (id, workflow_name, version, queue, status, input, key, available_at, deadline_at, created_at, tags, depth,
     parent_run_id, parent_step_key, on_parent_end)
SELECT s.id, s.workflow, s.version, s.queue, 'pending', s.input, s.key,
       LEAST(t.start, t.deadline), t.deadline, {now}, s.tags, s.depth,
       s.parent_run_id, s.parent_step_key, s.on_parent_end
FROM (
    SELECT unnest($2::uuid[]) AS id, unnest($3::text[]) AS workflow, unnest($4::text[]) AS version,
           unnest($5::text[]) AS queue, unnest($6::text[]) AS input, unnest($7::text[]) AS key,
           unnest($8::bigint[]) AS start_at, unnest($9::bigint[]) AS start_delay, unnest($10::bigint[]) AS deadline_at,
           unnest($11::bigint[]) AS deadline_delay, unnest($12::text[]) AS tags, unnest($13::bigint[]) AS depth,
           unnest($14::uuid[]) AS parent_run_id, unnest($15::text[]) AS parent_step_key, unnest($16::text[]) AS on_parent_end
) AS s
CROSS JOIN LATERAL (
    SELECT CASE WHEN s.start_delay IS NULL THEN s.start_at
                ELSE LEAST({now} + s.start_delay, {far_future}) END AS start,
           CASE WHEN s.deadline_delay IS NULL THEN s.deadline_at
                ELSE LEAST({now} + s.deadline_delay, {far_future}) END AS deadline
) AS t
ON CONFLICT DO NOTHING
