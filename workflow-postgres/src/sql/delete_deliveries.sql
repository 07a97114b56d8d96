-- Called by: event.rs, with runs that have ended or continue as new in this transaction. $2 is the
-- beginning of the names of signals that deliver events.
-- Guarantees: an event that was delivered and not received leaves no row.
DELETE FROM {schema}.workflow_signals AS s
WHERE s.run_id = ANY ($1::uuid[]) AND s.consumed_by IS NULL AND starts_with(s.name, $2)
