-- Called by: event.rs, after an event was delivered.
-- Guarantees: a wait receives one event.
DELETE FROM workflow_event_waits WHERE name = ?1 AND key = ?2
