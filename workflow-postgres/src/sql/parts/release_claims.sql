-- Called by: parts.rs, with ends and parks, one per run, in the order of the runs' ids.
-- Guarantees: changes and thereby locks the runs that run under the given epoch. No wake-up is
-- lost: a parked run whose wakes the writer has not seen is due now. A run that is parked until its
-- deadline is due then at the latest. On newer servers (configure_writer.sql), a run that another
-- transaction has changed since the statement began stays as it is. Answers the released runs, or
-- NULL if all are.
finished AS (
    UPDATE {schema}.workflow_runs AS r
    SET status = f.status, worker_id = NULL, output = f.output, error = f.error,
        completed_at = CASE WHEN f.status <> 'parked' THEN GREATEST({now}, r.created_at, r.started_at) END,
        paused_at = CASE WHEN f.status = 'parked' THEN r.paused_at END,
        available_at = CASE WHEN f.status <> 'parked' THEN r.available_at
                            WHEN r.wakes <> f.wakes THEN {now}
                            WHEN f.until_deadline THEN LEAST(GREATEST(f.until, {now}), r.deadline_at)
                            ELSE GREATEST(f.until, {now}) END,
        crashes = CASE WHEN f.reset_crashes THEN 0 ELSE r.crashes END,
        lone_crashes = CASE WHEN f.reset_crashes THEN NULL ELSE r.lone_crashes END
    FROM (
        SELECT unnest($1::uuid[]) AS id, unnest($2::bigint[]) AS epoch, unnest($3::text[]) AS status,
               unnest($4::text[]) AS output, unnest($5::text[]) AS error, unnest($6::bigint[]) AS wakes,
               unnest($7::bigint[]) AS until, unnest($8::boolean[]) AS reset_crashes,
               unnest($9::boolean[]) AS until_deadline
    ) AS f
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = f.id LIMIT 1
    ) AS held
    WHERE {after} AND r.ctid = held.place AND r.epoch = f.epoch AND r.status LIKE 'running'
    RETURNING r.id
)
-- Answers
CASE WHEN (SELECT count(*) FROM finished) < cardinality($1)
     THEN ARRAY(SELECT finished.id FROM finished) END AS finished
