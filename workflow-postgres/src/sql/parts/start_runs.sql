-- Called by: parts.rs, after find_lanes.sql, with rows sorted by (workflow, key), so that
-- concurrent inserts of the same keys wait for each other in one order. $3 says for each run which
-- of the lanes is its own, counted from 1. $15 says of each run whether a claim of the same batch
-- takes it; it may be empty. $16 is the worker of that claim, $17 its lease in microseconds. $18
-- has the ranks, $19 the places in traces.
-- Guarantees: one run per key and per id. An existing row stays as it is. A run that the claim
-- takes is written once, as the claim would leave it. Waits only for other inserts of the same
-- keys, and before the statement locks any run. Answers which runs are new, or NULL if all are.
started AS (
    INSERT INTO {schema}.workflow_runs
        (id, workflow_name, lane_id, status, input, key, available_at, deadline_at, created_at, tags, depth,
         parent_run_id, parent_step_key, on_parent_end, epoch, worker_id, started_at, rank,
         trace)
    SELECT s.id, s.workflow, (SELECT laned.ids FROM laned)[s.lane], CASE WHEN s.claimed THEN 'running' ELSE 'pending' END,
           s.input, s.key,
           CASE WHEN s.claimed THEN LEAST({now} + $17::bigint, {far_future}) ELSE LEAST(t.start, t.deadline) END,
           t.deadline, {now}, s.tags, s.depth, s.parent_run_id, s.parent_step_key, s.on_parent_end,
           CASE WHEN s.claimed THEN 1 ELSE 0 END, CASE WHEN s.claimed THEN $16::uuid END, CASE WHEN s.claimed THEN {now} END,
           CASE WHEN s.claimed THEN 0 ELSE s.rank END, s.trace
    FROM (
        SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS workflow, unnest($3::integer[]) AS lane,
               unnest($4::text[]) AS input, unnest($5::text[]) AS key,
               unnest($6::bigint[]) AS start_at, unnest($7::bigint[]) AS start_delay, unnest($8::bigint[]) AS deadline_at,
               unnest($9::bigint[]) AS deadline_delay, unnest($10::text[]) AS tags, unnest($11::bigint[]) AS depth,
               unnest($12::uuid[]) AS parent_run_id, unnest($13::text[]) AS parent_step_key,
               unnest($14::text[]) AS on_parent_end, unnest($15::boolean[]) AS claimed, unnest($18::smallint[]) AS rank,
               unnest($19::text[]) AS trace
    ) AS s
    CROSS JOIN LATERAL (
        SELECT CASE WHEN s.start_delay IS NULL THEN s.start_at
                    ELSE LEAST({now} + s.start_delay, {far_future}) END AS start,
               CASE WHEN s.deadline_delay IS NULL THEN s.deadline_at
                    ELSE LEAST({now} + s.deadline_delay, {far_future}) END AS deadline
    ) AS t
    WHERE {after}
    ON CONFLICT DO NOTHING
    RETURNING id
)
-- Answers
CASE WHEN (SELECT count(*) FROM started) < cardinality($1)
     THEN ARRAY(SELECT started.id FROM started) END AS started
