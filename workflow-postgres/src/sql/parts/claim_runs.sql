-- Called by: parts.rs, as the last part, because it locks runs in the order in which they are due:
-- after that, nothing may be waited for. $1-$3 are the lanes, $4 the limit, $5 the worker, $6 the
-- lease in microseconds. Waiting runs are looked for from the cursor of their lane in $7 and $8 on
-- (claim_cursor.rs). A claim that begins at the beginning also takes the runs of find_lapsed.sql.
-- Guarantees: at most $4 runs, each with a new epoch: one of each lane in turns, in the order of
-- the lanes, and of each lane the longest due first. Skips runs that another transaction holds, or
-- has changed since the statement began: their row has moved, and the next claim finds it.
-- `claimed` has the runs in no order. `lane` is the number of a lane of $1-$3. `rest` is NULL for a
-- run without any of the values that most runs do not have.
{lapsed}due AS MATERIALIZED (
    SELECT first.place, first.id, first.available_at, first.lane, {now} AS now
    FROM (
        SELECT either.place, either.id, either.available_at, either.lane,
               {turn} AS turn
        FROM (
            SELECT waiting.place, waiting.id, waiting.available_at, lane.number AS lane
            FROM unnest($1::text[], $2::text[], $3::text[], $7::bigint[], $8::uuid[])
                 WITH ORDINALITY AS lane(queue, workflow, version, cursor_at, cursor_id, number)
            CROSS JOIN LATERAL (
                SELECT r.ctid AS place, r.id, r.available_at
                FROM {schema}.workflow_runs AS r
                WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                      = hashtextextended(lane.workflow, hashtextextended(lane.queue, 0))
                  AND hashtextextended(r.version, 0) = hashtextextended(lane.version, 0)
                  AND r.queue = lane.queue AND r.workflow_name = lane.workflow AND r.version = lane.version
                  AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= {now}
                  AND (r.available_at, r.id) >= (lane.cursor_at, lane.cursor_id)
                ORDER BY r.available_at, r.id
                LIMIT $4
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS waiting
            {or_lapsed}
        ) AS either
    ) AS first
    WHERE {after}
    ORDER BY first.turn, first.lane, first.available_at, first.id
    LIMIT $4
), claimed AS (
    UPDATE {schema}.workflow_runs AS r
    SET epoch = r.epoch + 1, status = 'running', worker_id = $5,
        available_at = LEAST(due.now + $6::bigint, {far_future}), started_at = COALESCE(r.started_at, GREATEST(due.now, r.created_at))
    FROM due WHERE r.ctid = due.place
    RETURNING r.id, r.epoch, due.lane, r.input, due.available_at AS due_at, r.created_at,
              CASE WHEN r.wakes <> 0 OR r.crashes <> 0 OR r.attempt <> 1 OR r.generation <> 0 OR r.depth <> 0 OR r.parent_run_id IS NOT NULL
                   OR r.deadline_at IS NOT NULL OR r.cancel_requested_at IS NOT NULL OR r.started_at <> due.now OR r.error IS NOT NULL
              THEN json_build_array(r.wakes, r.crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.deadline_at,
                                    r.cancel_requested_at, r.started_at, r.error, r.lone_crashes)::text END AS rest
)
