-- Called by: room.rs, when a start has met a bound. ?1 holds queues.
-- Guarantees: the limits of those of these queues that bound how many runs wait in them or behind
-- their gates.
SELECT q.queue, q.declared, q.overridden
FROM json_each(?1) AS asked CROSS JOIN workflow_queues AS q
WHERE q.queue = asked.value AND instr(coalesce(q.overridden, q.declared), '"max_waiting"') > 0
