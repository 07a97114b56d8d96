-- Called by: generation.rs, with runs whose claims have passed the fence. $2-$4: run, epoch, input.
-- Guarantees: the next generation of a run begins once, with its input, and only by the claim that holds it.
UPDATE {schema}.workflow_runs AS r
SET status = 'pending', worker_id = NULL, generation = r.generation + 1, available_at = {now}, started_at = NULL,
    crashes = 0, error = NULL, input = c.input
FROM unnest($2::uuid[], $3::bigint[], $4::text[]) AS c(id, epoch, input)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = c.id LIMIT 1
) AS held
WHERE r.ctid = held.place AND r.epoch = c.epoch AND r.status LIKE 'running'
