-- Called by: event.rs, with an event that this transaction has locked. The runs that wait for it
-- are locked too, in the order of their ids.
-- Guarantees: each wait of a run that has not ended gets one signal, and no wait is left. Returns
-- the run of each signal.
WITH ended AS (
    DELETE FROM {schema}.workflow_event_waits AS w WHERE w.name = $2 AND w.key = $3 RETURNING w.run_id, w.signal
)
INSERT INTO {schema}.workflow_signals AS g (run_id, seq, name, key, payload, created_at)
SELECT e.run_id,
       COALESCE((SELECT max(o.seq) FROM {schema}.workflow_signals AS o WHERE o.run_id = e.run_id), 0)
       + row_number() OVER (PARTITION BY e.run_id ORDER BY e.signal),
       e.signal, e.signal, $4, {now}
FROM ended AS e
JOIN {schema}.workflow_runs AS r ON r.id = e.run_id AND r.status IN ('pending', 'running', 'parked')
ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
RETURNING g.run_id AS id
