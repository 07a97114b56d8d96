-- Called by: event.rs, with events that this transaction has locked, in a statement after that of
-- the lock: it sees every wait that was registered before.
-- Guarantees: returns the runs that wait for one of these events.
SELECT DISTINCT w.run_id AS id
FROM {schema}.workflow_event_waits AS w
JOIN (SELECT unnest($1::text[]) AS name, unnest($2::text[]) AS key) AS e ON w.name = e.name AND w.key = e.key
