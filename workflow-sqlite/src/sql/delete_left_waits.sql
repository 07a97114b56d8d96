-- Called by: event.rs, with waits that end without their event.
-- Guarantees: no emission finds these waits.
DELETE FROM workflow_event_waits
WHERE (run_id, step_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
