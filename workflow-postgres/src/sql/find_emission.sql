-- Called by: event.rs, with the step that emits an event.
-- Guarantees: returns how many runs an earlier attempt of the step has reached.
SELECT s.payload FROM {schema}.workflow_signals AS s WHERE s.run_id = $1 AND s.key = $2
