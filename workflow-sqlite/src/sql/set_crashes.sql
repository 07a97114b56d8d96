-- Called by: crashes.rs, with claims that have passed the fence: run, epoch, crashes, lone crashes,
-- and whether the run is driven alone.
-- Guarantees: changes only runs that run under the given epoch.
UPDATE workflow_runs
SET crashes = c.value ->> 2, lone_crashes = nullif(c.value ->> 3, 0), alone_epoch = iif(c.value ->> 4, c.value ->> 1, NULL)
FROM jsonb_each(?1) AS c
WHERE workflow_runs.id = c.value ->> 0 AND epoch = c.value ->> 1 AND +status = 'running'
