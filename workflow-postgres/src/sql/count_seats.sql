-- Called by: count.rs. $1 is a limit, $2 a number.
-- Guarantees: looks at no more than $2 seats that were taken, and as many that are waited for. A
-- seat counts while its run is running under the epoch that took it.
SELECT (
    SELECT count(*)
    FROM (
        SELECT s.run_id, s.epoch FROM {schema}.workflow_seats AS s
        WHERE s.limit_name = $1 AND s.epoch IS NOT NULL
        LIMIT $2
    ) AS taken
    CROSS JOIN LATERAL (
        SELECT r.status, r.epoch FROM {schema}.workflow_runs AS r WHERE r.id = taken.run_id LIMIT 1
    ) AS run
    WHERE run.status = 'running' AND run.epoch = taken.epoch
) AS held, (
    SELECT count(*)
    FROM (
        SELECT 1 FROM {schema}.workflow_seats AS s WHERE s.limit_name = $1 AND s.epoch IS NULL LIMIT $2
    ) AS counted
) AS waiting
