-- Called by: signal.rs, with signals that were not inserted.
-- Guarantees: returns those whose key the inbox has. Reads by index only.
SELECT o.run_id, o.key
FROM json_each(?1) AS s CROSS JOIN workflow_signals AS o
    ON o.run_id = s.value ->> 0 AND o.key = s.value ->> 1
