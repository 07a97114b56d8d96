-- Called by: gate.rs, after a claim. ?1 holds queues with a gate and a time each.
-- Guarantees: the rate of each gate is used up until its time.
UPDATE workflow_gates SET spent_until = spent.value ->> 2
FROM json_each(?1) AS spent
WHERE workflow_gates.queue = spent.value ->> 0 AND workflow_gates.gate = spent.value ->> 1
