-- Called by: deletion.rs, inside the write transaction.
-- Guarantees: none of these runs has an attempt, a published value or an item of a stream.
DELETE FROM step_attempts WHERE run_id IN (SELECT value FROM json_each(?1))
