-- Called by: event.rs, with waits of runs whose claims have passed the fence.
-- Guarantees: a wait that has received its event is not registered again.
INSERT INTO workflow_event_waits (run_id, step_key, name, key, signal)
SELECT n.value ->> 0, n.value ->> 1, n.value ->> 2, n.value ->> 3, n.value ->> 4
FROM json_each(?1) AS n
WHERE NOT EXISTS (SELECT 1 FROM workflow_signals AS s WHERE s.run_id = n.value ->> 0 AND s.key = n.value ->> 4)
ON CONFLICT (run_id, step_key) DO UPDATE SET name = excluded.name, key = excluded.key, signal = excluded.signal
