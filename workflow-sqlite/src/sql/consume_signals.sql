-- Called by: signal.rs, with the signals that steps consume. The claims of those steps have passed
-- the fence.
-- Guarantees: one step consumes a signal, and the signal stays with that step.
UPDATE workflow_signals
SET consumed_by = c.value ->> 2
FROM json_each(?1) AS c
WHERE workflow_signals.run_id = c.value ->> 0 AND seq = c.value ->> 1 AND consumed_by IS NULL
