-- Called by: signal.rs, with signals to runs that exist and have not ended.
-- Guarantees: numbers rise in the order of acceptance, because one transaction writes at a time. A
-- signal whose key the run has seen changes nothing. Returns the new signals.
INSERT INTO workflow_signals (run_id, seq, name, key, payload, created_at)
SELECT s.value ->> 0,
       coalesce((SELECT max(seq) FROM workflow_signals AS o WHERE o.run_id = s.value ->> 0), 0)
           + row_number() OVER (PARTITION BY s.value ->> 0 ORDER BY s.key),
       s.value ->> 1, s.value ->> 2, s.value ->> 3, ?2
FROM jsonb_each(?1) AS s
WHERE true
ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
RETURNING run_id, key
