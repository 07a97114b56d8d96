-- Called by: parts.rs, as the last part, because it locks runs in the order in which they are due:
-- after that, nothing may be waited for. $1-$3 are the lanes, $4 the limit, $5 the worker, $6 the
-- lease in microseconds. $7 and $8 are the cursors of each rank of each lane, from which on waiting
-- runs are looked for (claim_cursor.rs). In a claim with gates, $9 has the gate of each lane, $10
-- how many runs it gives in one turn, $11 its largest number, and $12 how many it has given in the
-- turn that goes on. A claim that begins at the beginning also takes the runs of find_lapsed.sql.
-- Guarantees: at most $4 runs, each with a new epoch: one of each lane in turns, in the order of
-- the lanes, and of each lane the longest due first, counted with the head start of its rank. Skips
-- runs that another transaction holds, or has changed since the statement began: their row has
-- moved, and the next claim finds it. `claimed` has the runs in no order. `lane` is the number of a
-- lane of $1-$3. `rank` is the one that the run had before; NULL for a run whose lease has ended.
-- `rest` is NULL for a run without any of the values that most runs do not have.
lane AS MATERIALIZED (
    SELECT named.number, found.id
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS named(queue, workflow, version, number)
    CROSS JOIN LATERAL (
        SELECT l.id FROM {schema}.workflow_lanes AS l
        WHERE l.queue = named.queue AND l.workflow_name = named.workflow AND l.version = named.version AND l.gate = {gate}
        LIMIT 1
    ) AS found
), line AS MATERIALIZED (
    SELECT ranked.number, ranked.id, ranked.rank, ranked.head_start,
           ($7::bigint[])[(ranked.number - 1) * {rank_count} + ranked.rank + 1] AS cursor_at,
           ($8::uuid[])[(ranked.number - 1) * {rank_count} + ranked.rank + 1] AS cursor_id
    FROM (
        SELECT lane.number, lane.id, unnest({ranks}) AS rank, unnest({head_starts}) AS head_start FROM lane
    ) AS ranked
), {lapsed}due AS MATERIALIZED (
    SELECT first.place, first.id, first.available_at, first.lane, first.rank, {now} AS now
    FROM (
        SELECT either.place, either.id, either.available_at, either.lane, either.rank, either.order_at,
               {turn} AS turn
        FROM (
            SELECT waiting.place, waiting.id, waiting.available_at, line.number AS lane, line.rank,
                   waiting.available_at - line.head_start AS order_at
            FROM line
            CROSS JOIN LATERAL (
                SELECT r.ctid AS place, r.id, r.available_at
                FROM {schema}.workflow_runs AS r
                WHERE r.lane_id = line.id AND r.rank = line.rank
                  AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= {now}
                  AND (r.available_at, r.id) >= (line.cursor_at, line.cursor_id)
                ORDER BY r.available_at, r.id
                LIMIT {at_most}
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS waiting
            {or_lapsed}
        ) AS either
    ) AS first
    WHERE {after}{within}
    ORDER BY first.turn, first.lane, first.order_at, first.id
    LIMIT $4
), claimed AS (
    UPDATE {schema}.workflow_runs AS r
    SET epoch = r.epoch + 1, rank = 0, status = 'running', worker_id = $5,
        available_at = LEAST(due.now + $6::bigint, {far_future}), started_at = COALESCE(r.started_at, GREATEST(due.now, r.created_at))
    FROM due WHERE r.ctid = due.place
    RETURNING r.id, r.epoch, due.lane, due.rank, r.input, due.available_at AS due_at, r.created_at,
              CASE WHEN r.wakes <> 0 OR r.crashes <> 0 OR r.attempt <> 1 OR r.generation <> 0 OR r.depth <> 0 OR r.parent_run_id IS NOT NULL
                   OR r.deadline_at IS NOT NULL OR r.cancel_requested_at IS NOT NULL OR r.started_at <> due.now OR r.error IS NOT NULL
                   OR r.trace IS NOT NULL
              THEN json_build_array(r.wakes, r.crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.deadline_at,
                                    r.cancel_requested_at, r.started_at, r.error, r.lone_crashes, r.trace)::text END AS rest
)
