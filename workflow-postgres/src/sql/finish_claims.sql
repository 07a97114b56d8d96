-- Called by: finish.rs, with ends and parks whose claims have passed the fence, one a run.
-- Guarantees: changes claimed runs only. No wake-up is lost: a parked run whose wakes the writer has not seen is due now.
-- One that is parked until its deadline is due then at the latest.
UPDATE {schema}.workflow_runs AS r
SET status = f.status, worker_id = NULL, output = f.output, error = f.error,
    completed_at = CASE WHEN f.status <> 'parked' THEN GREATEST({now}, r.created_at, r.started_at) END,
    paused_at = CASE WHEN f.status = 'parked' THEN r.paused_at END,
    available_at = CASE WHEN f.status <> 'parked' THEN r.available_at
                        WHEN r.wakes <> f.wakes THEN {now}
                        WHEN f.until_deadline THEN LEAST(GREATEST(f.until, {now}), r.deadline_at)
                        ELSE GREATEST(f.until, {now}) END,
    crashes = CASE WHEN f.reset_crashes THEN 0 ELSE r.crashes END
FROM (
    SELECT unnest($2::uuid[]) AS id, unnest($3::bigint[]) AS epoch, unnest($4::text[]) AS status,
           unnest($5::text[]) AS output, unnest($6::text[]) AS error, unnest($7::bigint[]) AS wakes,
           unnest($8::bigint[]) AS until, unnest($9::boolean[]) AS reset_crashes, unnest($10::boolean[]) AS until_deadline
) AS f
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = f.id LIMIT 1
) AS held
WHERE r.ctid = held.place AND r.epoch = f.epoch AND r.status LIKE 'running'
