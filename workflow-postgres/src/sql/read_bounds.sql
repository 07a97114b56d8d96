-- Called by: room.rs, when a start has met a bound. $1 are queues.
-- Guarantees: the limits of those of these queues that bound how many runs wait in them or behind
-- their gates.
SELECT q.queue, q.declared, q.overridden
FROM {schema}.workflow_queues AS q
WHERE q.queue = ANY ($1::text[]) AND strpos(COALESCE(q.overridden, q.declared), '"max_waiting"') > 0
