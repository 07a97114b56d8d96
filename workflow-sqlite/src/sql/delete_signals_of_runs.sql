-- Called by: deletion.rs, inside the write transaction.
-- Guarantees: none of these runs has a signal in its inbox.
DELETE FROM workflow_signals WHERE run_id IN (SELECT value FROM json_each(?1))
