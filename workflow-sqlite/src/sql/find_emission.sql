-- Called by: event.rs, with the step that emits an event.
-- Guarantees: returns how many runs an earlier attempt of the step has reached.
SELECT payload FROM workflow_signals WHERE run_id = ?1 AND key = ?2
