-- Called by: continue_as_new.rs, with claims that have passed the fence, after delete_steps.sql.
-- $2-$4: run, epoch, input.
-- Guarantees: the next generation of a run begins once, with its input, and only under the claim
-- that holds.
UPDATE {schema}.workflow_runs AS r
SET status = 'pending', worker_id = NULL, generation = r.generation + 1, attempt = 1, available_at = {now},
    started_at = NULL, crashes = 0, lone_crashes = NULL, error = NULL, input = c.input
FROM unnest($2::uuid[], $3::bigint[], $4::text[]) AS c(id, epoch, input)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = c.id LIMIT 1
) AS held
WHERE r.ctid = held.place AND r.epoch = c.epoch AND r.status LIKE 'running'
