-- Called by: finish.rs, with claims that have passed the fence; fast_path.rs, which checks the
-- fence in the same transaction.
-- Guarantees: no wake-up is lost: a run with wakes that the writer has not seen is due now. A run
-- is due at its deadline at the latest, unless the writer has seen the deadline pass.
UPDATE OR FAIL workflow_runs
SET status = 'parked', worker_id = NULL, error = p.value ->> 5,
    available_at = CASE WHEN wakes <> p.value ->> 2 THEN n.now
                        WHEN p.value ->> 6
                        THEN min(max(p.value ->> 3, n.now), coalesce(deadline_at, 9223372036854775807))
                        ELSE max(p.value ->> 3, n.now) END,
    crashes = CASE WHEN p.value ->> 4 THEN 0 ELSE crashes END,
    lone_crashes = CASE WHEN p.value ->> 4 THEN NULL ELSE lone_crashes END
FROM (SELECT ? AS now) AS n, jsonb_each(?) AS p
WHERE workflow_runs.id = p.value ->> 0 AND epoch = p.value ->> 1 AND +status = 'running'
