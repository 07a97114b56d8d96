-- Called by: signal.rs, with runs that got a signal or whose child ended.
-- Guarantees: a parked run is due now. A running one keeps its lease, but cannot park before it has
-- looked again. Locks in the order of ids, as every batch does.
WITH woken AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.id = ANY ($2::uuid[]) AND r.status IN ('pending', 'running', 'parked')
    ORDER BY r.id
    FOR NO KEY UPDATE
)
UPDATE {schema}.workflow_runs AS r
SET wakes = r.wakes + 1,
    available_at = CASE WHEN r.status = 'parked' THEN LEAST(r.available_at, {now}) ELSE r.available_at END
WHERE r.id = ANY (ARRAY(SELECT woken.id FROM woken))
