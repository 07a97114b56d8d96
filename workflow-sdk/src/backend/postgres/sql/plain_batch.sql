-- Called by: plain.rs, once a plain batch. $2-$4 are those of read_claims.sql, $5-$15 of insert_attempts.sql, $16-$24 of
-- finish_claims.sql after the time.
-- Guarantees: those of these three. Answers how many claims are lost, and how many attempts, ends and parks are written. If a claim is
-- lost, or an end or a park is not written, the transaction must be rolled back: what it then has written may be wrong. A run that it ends
-- or parks it locks by that; one that somebody has changed since the statement began has another place, and is not written.
WITH lost AS (
    SELECT asked.id
    FROM (SELECT unnest($2::uuid[]) AS id, unnest($3::bigint[]) AS epoch) AS asked
    LEFT JOIN LATERAL (
        SELECT r.epoch, r.status, r.worker_id FROM {schema}.workflow_runs AS r WHERE r.id = asked.id LIMIT 1
    ) AS held ON true
    WHERE held.epoch IS DISTINCT FROM asked.epoch OR held.status IS DISTINCT FROM 'running'
       OR (held.worker_id = ANY ($4::uuid[])) IS NOT TRUE
), recorded AS (
    INSERT INTO {schema}.step_attempts
        (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
    SELECT w.run_id, w.step_key, w.attempt, w.kind, w.status, w.position, w.output, w.error, w.epoch, w.started_at,
           w.completed_at
    FROM (
        SELECT unnest($5::uuid[]) AS run_id, unnest($6::text[]) AS step_key, unnest($7::bigint[]) AS attempt,
               unnest($8::text[]) AS kind, unnest($9::text[]) AS status, unnest($10::bigint[]) AS position,
               unnest($11::text[]) AS output, unnest($12::text[]) AS error, unnest($13::bigint[]) AS epoch,
               unnest($14::bigint[]) AS started_at, unnest($15::bigint[]) AS completed_at
    ) AS w
    WHERE (SELECT a.epoch FROM {schema}.step_attempts AS a
           WHERE a.run_id = w.run_id AND a.step_key = w.step_key AND a.attempt = w.attempt) IS NULL
    RETURNING 1
), finished AS (
    UPDATE {schema}.workflow_runs AS r
    SET status = f.status, worker_id = NULL, output = f.output, error = f.error,
        completed_at = CASE WHEN f.status <> 'parked' THEN GREATEST({now}, r.created_at, r.started_at) END,
        available_at = CASE WHEN f.status <> 'parked' THEN r.available_at
                            WHEN r.wakes <> f.wakes THEN {now}
                            WHEN f.until_deadline THEN LEAST(GREATEST(f.until, {now}), r.deadline_at)
                            ELSE GREATEST(f.until, {now}) END,
        paused_at = CASE WHEN f.status = 'parked' THEN r.paused_at END,
        crashes = CASE WHEN f.reset_crashes THEN 0 ELSE r.crashes END
    FROM (
        SELECT unnest($16::uuid[]) AS id, unnest($17::bigint[]) AS epoch, unnest($18::text[]) AS status,
               unnest($19::text[]) AS output, unnest($20::text[]) AS error, unnest($21::bigint[]) AS wakes,
               unnest($22::bigint[]) AS until, unnest($23::boolean[]) AS reset_crashes, unnest($24::boolean[]) AS until_deadline
    ) AS f
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place, o.epoch, o.status FROM {schema}.workflow_runs AS o WHERE o.id = f.id LIMIT 1
    ) AS held
    WHERE held.epoch = f.epoch AND held.status = 'running' AND r.ctid = held.place
    RETURNING 1
)
SELECT (SELECT count(*) FROM lost) AS lost, (SELECT count(*) FROM recorded) AS recorded,
       (SELECT count(*) FROM finished) AS finished
