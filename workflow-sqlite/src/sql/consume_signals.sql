-- Called by: attempt.rs, with the steps that took signals; their claims have passed the fence.
-- Guarantees: a signal is taken by one step and stays that step's.
UPDATE workflow_signals
SET consumed_by = c.value ->> 2
FROM json_each(?1) AS c
WHERE workflow_signals.run_id = c.value ->> 0 AND seq = c.value ->> 1 AND consumed_by IS NULL
