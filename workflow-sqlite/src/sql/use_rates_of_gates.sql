-- Called by: gate.rs, after a claim. ?1 holds queues with a gate and a time each.
-- Guarantees: the rate of each gate is used up until its time.
UPDATE workflow_gates SET used_until = used.value ->> 2
FROM json_each(?1) AS used
WHERE workflow_gates.queue = used.value ->> 0 AND workflow_gates.gate = used.value ->> 1
