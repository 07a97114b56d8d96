-- Called by: crashes.rs, with claims that have passed the fence. $1-$5: run, epoch, crashes, lone
-- crashes, and whether the run is driven alone.
-- Guarantees: changes only runs that run under the given epoch.
UPDATE {schema}.workflow_runs AS r
SET crashes = c.crashes, lone_crashes = NULLIF(c.lone_crashes, 0), alone_epoch = CASE WHEN c.is_alone THEN c.epoch END
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[])
    AS c(id, epoch, crashes, lone_crashes, is_alone)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = c.id LIMIT 1
) AS held
WHERE r.ctid = held.place AND r.epoch = c.epoch AND r.status LIKE 'running'
