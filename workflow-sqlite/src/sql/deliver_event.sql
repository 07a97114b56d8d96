-- Called by: event.rs, before the waits for this event are deleted.
-- Guarantees: each wait of a run that has not ended gets one signal. Returns the run of each
-- signal.
INSERT INTO workflow_signals (run_id, seq, name, key, payload, created_at)
SELECT w.run_id,
       coalesce((SELECT max(seq) FROM workflow_signals AS o WHERE o.run_id = w.run_id), 0)
       + row_number() OVER (PARTITION BY w.run_id ORDER BY w.signal),
       w.signal, w.signal, ?3, ?4
FROM workflow_event_waits AS w
JOIN workflow_runs AS r ON r.id = w.run_id AND r.status IN ('pending', 'running', 'parked')
WHERE w.name = ?1 AND w.key = ?2
ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
RETURNING run_id
