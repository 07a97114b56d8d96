-- Called by: lone.rs, as a transaction of its own. $1-$16 are those of insert_runs.sql, $17 says of each run whether the claim
-- takes it; $18-$20 are the lanes, $21 what the claim may take beside, $22 the worker, $23 the lease in microseconds.
-- Guarantees: as insert_runs.sql and, for what is there already, as claim_runs.sql. A run that it starts and claims is written
-- once, as the claim would leave it, and answered without its lane, which who starts it knows. Always one row, for the time and for how
-- many runs were started.
WITH started AS (
    INSERT INTO {schema}.workflow_runs
        (id, workflow_name, version, queue, status, input, key, available_at, deadline_at, created_at, tags, depth,
         parent_run_id, parent_step_key, on_parent_end, epoch, worker_id, started_at)
    SELECT s.id, s.workflow, s.version, s.queue, CASE WHEN s.claimed THEN 'running' ELSE 'pending' END, s.input, s.key,
           CASE WHEN s.claimed THEN LEAST({now} + $23::bigint, {far_future}) ELSE LEAST(t.start, t.deadline) END, t.deadline, {now},
           s.tags, s.depth, s.parent_run_id, s.parent_step_key, s.on_parent_end, s.claimed::integer,
           CASE WHEN s.claimed THEN $22::uuid END, CASE WHEN s.claimed THEN {now} END
    FROM (
        SELECT unnest($2::uuid[]) AS id, unnest($3::text[]) AS workflow, unnest($4::text[]) AS version,
               unnest($5::text[]) AS queue, unnest($6::text[]) AS input, unnest($7::text[]) AS key,
               unnest($8::bigint[]) AS start_at, unnest($9::bigint[]) AS start_delay, unnest($10::bigint[]) AS deadline_at,
               unnest($11::bigint[]) AS deadline_delay, unnest($12::text[]) AS tags, unnest($13::bigint[]) AS depth,
               unnest($14::uuid[]) AS parent_run_id, unnest($15::text[]) AS parent_step_key, unnest($16::text[]) AS on_parent_end,
               unnest($17::boolean[]) AS claimed
    ) AS s
    CROSS JOIN LATERAL (
        SELECT CASE WHEN s.start_delay IS NULL THEN s.start_at
                    ELSE LEAST({now} + s.start_delay, {far_future}) END AS start,
               CASE WHEN s.deadline_delay IS NULL THEN s.deadline_at
                    ELSE LEAST({now} + s.deadline_delay, {far_future}) END AS deadline
    ) AS t
    ON CONFLICT DO NOTHING
    RETURNING id, epoch, NULL::bigint AS lane, input, created_at AS due_at,
              CASE WHEN wakes <> 0 OR crashes <> 0 OR attempt <> 1 OR generation <> 0 OR depth <> 0 OR parent_run_id IS NOT NULL
                   OR deadline_at IS NOT NULL OR cancel_requested_at IS NOT NULL OR started_at <> created_at OR error IS NOT NULL
              THEN json_build_array(wakes, crashes, attempt, generation, depth, parent_run_id, deadline_at,
                                    cancel_requested_at, started_at, error)::text END AS rest, status
), due AS MATERIALIZED (
    SELECT first.place, first.id, first.available_at, first.holder, lane.number AS lane, {now} AS now
    FROM unnest($18::text[], $19::text[], $20::text[]) WITH ORDINALITY AS lane(queue, workflow, version, number)
    CROSS JOIN LATERAL (
        SELECT waiting.place, waiting.id, waiting.available_at, NULL::uuid AS holder
        FROM (
            SELECT r.ctid AS place, r.id, r.available_at
            FROM {schema}.workflow_runs AS r
            WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                  = hashtextextended(lane.workflow, hashtextextended(lane.queue, 0))
              AND hashtextextended(r.version, 0) = hashtextextended(lane.version, 0)
              AND r.queue = lane.queue AND r.workflow_name = lane.workflow AND r.version = lane.version
              AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= {now}
            ORDER BY r.available_at, r.id
            LIMIT $21
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS waiting
        UNION ALL
        SELECT lapsed.place, lapsed.id, lapsed.available_at, lapsed.holder
        FROM (
            SELECT r.ctid AS place, r.id, r.available_at, r.worker_id AS holder
            FROM {schema}.workflow_runs AS r
            WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                  = hashtextextended(lane.workflow, hashtextextended(lane.queue, 0))
              AND hashtextextended(r.version, 0) = hashtextextended(lane.version, 0)
              AND r.queue = lane.queue AND r.workflow_name = lane.workflow AND r.version = lane.version
              AND r.status = 'running' AND r.paused_at IS NULL AND r.available_at <= {now}
              AND (r.worker_id IS NULL
                   OR (SELECT w.id FROM {schema}.workflow_workers AS w WHERE w.id = r.worker_id) IS NULL
                   OR (SELECT true FROM {schema}.workflow_workers AS w WHERE w.id = r.worker_id FOR UPDATE SKIP LOCKED))
            ORDER BY r.available_at, r.id
            LIMIT $21
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS lapsed
    ) AS first
    ORDER BY first.available_at, first.id
    LIMIT $21
), taken AS (
    UPDATE {schema}.workflow_workers AS w SET started_at = w.started_at
    WHERE w.id = ANY (ARRAY(SELECT due.holder FROM due WHERE due.holder IS NOT NULL))
), claimed AS (
    UPDATE {schema}.workflow_runs AS r
    SET epoch = r.epoch + 1, status = 'running', worker_id = $22,
        available_at = LEAST(due.now + $23::bigint, {far_future}), started_at = COALESCE(r.started_at, GREATEST(due.now, r.created_at)),
        crashes = r.crashes + (r.status = 'running')::integer
    FROM due WHERE r.ctid = due.place
    RETURNING r.id, r.epoch, due.lane, r.input, due.available_at AS due_at,
              CASE WHEN r.wakes <> 0 OR r.crashes <> 0 OR r.attempt <> 1 OR r.generation <> 0 OR r.depth <> 0 OR r.parent_run_id IS NOT NULL
                   OR r.deadline_at IS NOT NULL OR r.cancel_requested_at IS NOT NULL OR r.started_at <> due.now OR r.error IS NOT NULL
              THEN json_build_array(r.wakes, r.crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.deadline_at,
                                    r.cancel_requested_at, r.started_at, r.error)::text END AS rest
)
SELECT clock.now, clock.started, c.id, c.epoch, c.lane, c.input, c.rest
FROM (SELECT {now} AS now, (SELECT count(*) FROM started) AS started) AS clock
LEFT JOIN (
    SELECT id, epoch, lane, input, due_at, rest FROM claimed
    UNION ALL
    SELECT id, epoch, lane, input, due_at, rest FROM started WHERE status = 'running'
) AS c ON true
ORDER BY c.due_at, c.id
