-- Called by: event.rs, with runs that have ended or continue as new in this transaction.
-- Guarantees: no emission finds these runs.
DELETE FROM workflow_event_waits WHERE run_id IN (SELECT value FROM json_each(?1))
