-- Called by: signal.rs, with signals that were not inserted.
-- Guarantees: returns the signals in the inboxes that have their keys, consumed or not. Reads by
-- index only.
SELECT o.run_id, o.key, o.name, o.payload, o.created_at
FROM json_each(?1) AS s CROSS JOIN workflow_signals AS o
    ON o.run_id = s.value ->> 0 AND o.key = s.value ->> 1
