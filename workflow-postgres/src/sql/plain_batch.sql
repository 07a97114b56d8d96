-- Called by: plain.rs, once a plain batch, mostly as a transaction of its own. $2 and $3 are the runs whose attempts it records, with the
-- epochs under which their writer holds them, but for those that it knows to be held while the rows of the workers of the process, $4,
-- are the versions $26; $5-$15 the attempts, as in insert_attempts.sql, of which the first $16 may be there (if none may, $7-$9 and $12 may
-- be empty: the first of a step, and a success; and $13, if all are under the first claims of their runs); $17-$25 the ends and parks, as
-- in finish_claims.sql; $27-$32 a claim, as in claim_runs.sql, which begins at $33 and $34 (claim_start.rs). Parts are left out (sql.rs),
-- for to begin a statement of so many costs the server as much as some thirty rows: `shown` without attempts that may be there; `unusual`, too, if all of these are first successes,
-- nothing is parked, no end has an error and $2 is empty; `claim` without a claim; and `lapsed`, the runs whose leases have ended, without
-- one, too, or if such a batch has one that does not begin at the beginning.
-- Guarantees: those of these three. `holds` says that every claim on a run whose attempts it records holds until the commit, for the rows
-- of its workers are locked and are what the statement saw when it began, or what is known of them (worker_lock.rs); if it does not,
-- nothing was changed. They are locked before any run, whether it asks for them or not: who terminates runs locks in that order.
-- `versions` says what these rows are. An attempt that was thought to be new and is there fails the statement. A run that it ends or parks
-- it locks by that; one that is not its writer's is not written, nor, on newer servers (configure_writer.sql), one that somebody has
-- changed since the statement began: `finished` names the others then. The claim comes after these, for it locks runs in the order in which they are due, and nothing may be waited for
-- after that. The first row says all this, the others are the claimed runs in no order that is promised: to sort them here, and to say it in
-- each row, cost as much as six claims.
WITH seen AS MATERIALIZED (
    SELECT w.id, w.xmin::text || w.ctid::text AS version FROM {schema}.workflow_workers AS w WHERE w.id = ANY ($4::uuid[])
), locked AS MATERIALIZED (
    SELECT w.id, w.xmin::text || w.ctid::text AS version FROM {schema}.workflow_workers AS w WHERE w.id = ANY ($4::uuid[])
    ORDER BY w.id
    FOR UPDATE
), ours AS MATERIALIZED (
    SELECT locked.id, locked.version FROM locked WHERE locked.version = (SELECT seen.version FROM seen WHERE seen.id = locked.id)
/*unusual*/), lost AS (
    SELECT asked.id
    FROM (SELECT unnest($2::uuid[]) AS id, unnest($3::bigint[]) AS epoch) AS asked
    LEFT JOIN LATERAL (
        SELECT r.epoch, r.status, r.worker_id FROM {schema}.workflow_runs AS r WHERE r.id = asked.id LIMIT 1
    ) AS held ON true
    WHERE held.epoch IS DISTINCT FROM asked.epoch OR held.status IS DISTINCT FROM 'running'
       OR (held.worker_id = ANY (ARRAY(SELECT ours.id FROM ours))) IS NOT TRUE
/*end*/), verdict AS MATERIALIZED (
    SELECT ARRAY(SELECT ours.id FROM ours) IS NOT NULL /*unusual*/AND NOT EXISTS (SELECT FROM lost) /*end*/AND NOT EXISTS (
        SELECT FROM (SELECT unnest($4::uuid[]) AS id, unnest($26::text[]) AS version) AS known
        WHERE known.version IS NOT NULL
          AND known.version IS DISTINCT FROM (SELECT ours.version FROM ours WHERE ours.id = known.id)
    ) AS holds
), recorded AS (
    INSERT INTO {schema}.step_attempts
        (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
    SELECT w.run_id, w.step_key, COALESCE(/*unusual*/w.attempt, /*end*/1), COALESCE(/*unusual*/w.kind, /*end*/'step'),
           COALESCE(/*unusual*/w.status, /*end*/'succeeded'), w.position, w.output, COALESCE(/*unusual*/w.error, /*end*/NULL),
           COALESCE(w.epoch, 1), w.started_at, w.completed_at
    FROM (
        SELECT unnest($5::uuid[]) AS run_id, unnest($6::text[]) AS step_key, unnest($10::bigint[]) AS position,
               unnest($11::text[]) AS output, unnest($13::bigint[]) AS epoch, unnest($14::bigint[]) AS started_at,
               unnest($15::bigint[]) AS completed_at/*unusual*/,
               unnest($7::bigint[]) AS attempt, unnest($8::text[]) AS kind, unnest($9::text[]) AS status,
               unnest($12::text[]) AS error, generate_subscripts($5::uuid[], 1) AS number/*end*/
    ) AS w
    WHERE (SELECT verdict.holds FROM verdict)
/*unusual*/      AND (w.number > $16::integer
           OR (SELECT a.epoch FROM {schema}.step_attempts AS a
               WHERE a.run_id = w.run_id AND a.step_key = w.step_key AND a.attempt = w.attempt) IS NULL)
/*end*//*shown*/), updated AS (
    UPDATE {schema}.step_attempts AS a
    SET kind = w.kind, status = w.status, position = w.position, output = w.output, error = w.error, epoch = w.epoch,
        completed_at = w.completed_at
    FROM (
        SELECT unnest(($5::uuid[])[1:$16]) AS run_id, unnest(($6::text[])[1:$16]) AS step_key,
               unnest(($7::bigint[])[1:$16]) AS attempt, unnest(($8::text[])[1:$16]) AS kind,
               unnest(($9::text[])[1:$16]) AS status, unnest(($10::bigint[])[1:$16]) AS position,
               unnest(($11::text[])[1:$16]) AS output, unnest(($12::text[])[1:$16]) AS error,
               unnest(($13::bigint[])[1:$16]) AS epoch, unnest(($15::bigint[])[1:$16]) AS completed_at
    ) AS w
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place FROM {schema}.step_attempts AS o
        WHERE o.run_id = w.run_id AND o.step_key = w.step_key AND o.attempt = w.attempt
        LIMIT 1
    ) AS found
    WHERE (SELECT verdict.holds FROM verdict) AND a.ctid = found.place AND a.status = 'running'
/*end*/), finished AS (
    UPDATE {schema}.workflow_runs AS r
    SET status = f.status, worker_id = NULL, output = f.output, error = COALESCE(/*unusual*/f.error, /*end*/NULL),
        completed_at = CASE WHEN f.status <> 'parked' THEN GREATEST({now}, r.created_at, r.started_at) END,
        paused_at = COALESCE(/*unusual*/CASE WHEN f.status = 'parked' THEN r.paused_at END, /*end*/NULL::bigint)/*unusual*/,
        available_at = CASE WHEN f.status <> 'parked' THEN r.available_at
                            WHEN r.wakes <> f.wakes THEN {now}
                            WHEN f.until_deadline THEN LEAST(GREATEST(f.until, {now}), r.deadline_at)
                            ELSE GREATEST(f.until, {now}) END,
        crashes = CASE WHEN f.reset_crashes THEN 0 ELSE r.crashes END/*end*/
    FROM (
        SELECT unnest($17::uuid[]) AS id, unnest($18::bigint[]) AS epoch, unnest($19::text[]) AS status,
               unnest($20::text[]) AS output/*unusual*/, unnest($21::text[]) AS error, unnest($22::bigint[]) AS wakes,
               unnest($23::bigint[]) AS until, unnest($24::boolean[]) AS reset_crashes, unnest($25::boolean[]) AS until_deadline/*end*/
    ) AS f
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = f.id LIMIT 1
    ) AS held
    WHERE (SELECT verdict.holds FROM verdict) AND r.ctid = held.place AND r.epoch = f.epoch AND r.status LIKE 'running'
    RETURNING r.id
/*claim*/), due AS MATERIALIZED (
    SELECT first.place, first.id, first.available_at, first.holder, lane.number AS lane, {now} AS now
    FROM unnest($27::text[], $28::text[], $29::text[]) WITH ORDINALITY AS lane(queue, workflow, version, number)
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
              AND (r.available_at, r.id) >= ($33::bigint, $34::uuid)
            ORDER BY r.available_at, r.id
            LIMIT $30
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS waiting
/*end*//*lapsed*/        UNION ALL
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
            LIMIT $30
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS lapsed
/*end*//*claim*/    ) AS first
    WHERE (SELECT verdict.holds FROM verdict) AND ARRAY(SELECT finished.id FROM finished) IS NOT NULL
    ORDER BY first.available_at, first.id
    LIMIT $30
/*end*//*lapsed*/), taken AS (
    UPDATE {schema}.workflow_workers AS w SET started_at = w.started_at
    WHERE w.id = ANY (ARRAY(SELECT due.holder FROM due WHERE due.holder IS NOT NULL))
/*end*//*claim*/), claimed AS (
    UPDATE {schema}.workflow_runs AS r
    SET epoch = r.epoch + 1, status = 'running', worker_id = $31,
        available_at = LEAST(due.now + $32::bigint, {far_future}), started_at = COALESCE(r.started_at, GREATEST(due.now, r.created_at)),
        crashes = r.crashes + (r.status = 'running')::integer
    FROM due WHERE r.ctid = due.place
    RETURNING r.id, r.epoch, due.lane, r.input, due.available_at AS due_at,
              CASE WHEN r.wakes <> 0 OR r.crashes <> 0 OR r.attempt <> 1 OR r.generation <> 0 OR r.depth <> 0 OR r.parent_run_id IS NOT NULL
                   OR r.deadline_at IS NOT NULL OR r.cancel_requested_at IS NOT NULL OR r.started_at <> due.now OR r.error IS NOT NULL
              THEN json_build_array(r.wakes, r.crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.deadline_at,
                                    r.cancel_requested_at, r.started_at, r.error)::text END AS rest
/*end*/)
SELECT {now} AS now, (SELECT verdict.holds FROM verdict) AS holds,
       ARRAY(SELECT (SELECT ours.version FROM ours WHERE ours.id = worker.id)
             FROM (SELECT unnest($4::uuid[]) AS id) AS worker) AS versions,
       CASE WHEN (SELECT count(*) FROM finished) < cardinality($17)
            THEN ARRAY(SELECT finished.id FROM finished) END AS finished/*claim*/,
       NULL AS id, NULL AS epoch, NULL AS lane, NULL AS input, NULL AS due_at, NULL AS rest
UNION ALL
SELECT NULL, NULL, NULL, NULL, c.id, c.epoch, c.lane, c.input, c.due_at, c.rest
FROM claimed AS c/*end*/
