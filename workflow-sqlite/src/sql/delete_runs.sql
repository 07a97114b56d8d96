-- Called by: deletion.rs, last of all that it deletes, inside the write transaction.
-- Guarantees: none of these runs exists, and their keys are free.
DELETE FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?1))
