-- Called by: parts.rs, as the last part, because it locks runs in the order in which they are due:
-- after that, nothing may be waited for. $1-$3 are the lanes, $4 the limit, $5 the worker, $6 the
-- lease in microseconds. Waiting runs are looked for from the cursor ($7, $8) on (claim_cursor.rs),
-- runs whose lease has ended from the beginning.
-- Guarantees: at most $4 runs, the longest due first over all lanes, each with a new epoch. A run
-- that is still running is passed over while its worker commits a batch, and the row of that worker
-- gets another version (ownership.rs). Skips
-- runs that another transaction holds, or has changed since the statement began: their row has
-- moved, and the next claim finds it. `claimed` has the runs in no order. `lane` is the number of a
-- lane of $1-$3. `rest` is NULL for a run without any of the values that most runs do not have.
due AS MATERIALIZED (
    SELECT first.place, first.id, first.available_at, first.holder, lane.number AS lane, {now} AS now
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS lane(queue, workflow, version, number)
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
              AND (r.available_at, r.id) >= ($7::bigint, $8::uuid)
            ORDER BY r.available_at, r.id
            LIMIT $4
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
            LIMIT $4
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS lapsed
    ) AS first
    WHERE {after}
    ORDER BY first.available_at, first.id
    LIMIT $4
), taken AS (
    UPDATE {schema}.workflow_workers AS w SET started_at = w.started_at
    WHERE w.id = ANY (ARRAY(SELECT due.holder FROM due WHERE due.holder IS NOT NULL))
), claimed AS (
    UPDATE {schema}.workflow_runs AS r
    SET epoch = r.epoch + 1, status = 'running', worker_id = $5,
        available_at = LEAST(due.now + $6::bigint, {far_future}), started_at = COALESCE(r.started_at, GREATEST(due.now, r.created_at))
    FROM due WHERE r.ctid = due.place
    RETURNING r.id, r.epoch, due.lane, r.input, due.available_at AS due_at,
              CASE WHEN r.wakes <> 0 OR r.crashes <> 0 OR r.attempt <> 1 OR r.generation <> 0 OR r.depth <> 0 OR r.parent_run_id IS NOT NULL
                   OR r.deadline_at IS NOT NULL OR r.cancel_requested_at IS NOT NULL OR r.started_at <> due.now OR r.error IS NOT NULL
              THEN json_build_array(r.wakes, r.crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.deadline_at,
                                    r.cancel_requested_at, r.started_at, r.error, r.lone_crashes)::text END AS rest
)
