-- Called by: finish.rs, with ends and parks whose claims have passed the fence, one a run.
-- Guarantees: changes claimed runs only. No wake-up is lost: a parked run whose wakes the writer has not seen is due now.
UPDATE {schema}.workflow_runs AS r
SET status = f.status, worker_id = NULL, output = f.output, error = f.error,
    completed_at = CASE WHEN f.status <> 'parked' THEN {now} END,
    available_at = CASE WHEN f.status <> 'parked' THEN r.available_at
                        WHEN r.wakes = f.wakes THEN LEAST(GREATEST(f.until, {now}), r.deadline_at)
                        ELSE {now} END,
    paused_at = CASE WHEN f.status = 'parked' THEN r.paused_at END,
    crashes = CASE WHEN f.reset_crashes THEN 0 ELSE r.crashes END
FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::boolean[])
    AS f(id, epoch, status, output, error, wakes, until, reset_crashes)
WHERE r.id = f.id AND r.epoch = f.epoch AND r.status = 'running'
