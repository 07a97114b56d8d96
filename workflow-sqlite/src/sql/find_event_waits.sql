-- Called by: event.rs, with the events that a batch emits.
-- Guarantees: returns the runs that wait for one of these events.
SELECT DISTINCT w.run_id
FROM json_each(?1) AS e JOIN workflow_event_waits AS w ON w.name = e.value ->> 0 AND w.key = e.value ->> 1
