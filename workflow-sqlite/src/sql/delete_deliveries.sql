-- Called by: event.rs, with runs that have ended or continue as new in this transaction. The second
-- parameter is the beginning of the names of signals that deliver events.
-- Guarantees: an event that was delivered and not received leaves no row.
DELETE FROM workflow_signals
WHERE run_id IN (SELECT value FROM json_each(?1)) AND consumed_by IS NULL AND substr(name, 1, length(?2)) = ?2
