-- Called by: event.rs, after the event of a step was delivered.
-- Guarantees: a later attempt of the step finds how many runs were reached.
INSERT INTO workflow_signals (run_id, seq, name, key, payload, consumed_by, created_at)
SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3, ?4, ?2, ?5 FROM workflow_signals WHERE run_id = ?1
