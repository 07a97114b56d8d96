-- Called by: event.rs, with runs that have ended or continue as new in this transaction.
-- Guarantees: no step of these runs has a seat or waits for one.
DELETE FROM workflow_seats WHERE run_id IN (SELECT value FROM json_each(?1))
