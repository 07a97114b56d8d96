-- Called by: count.rs. ?1 is a limit, ?2 a number.
-- Guarantees: looks at no more than ?2 seats that were taken, and as many that are waited for. A
-- seat counts while its run is running under the epoch that took it.
SELECT (
    SELECT count(*) FROM (
        SELECT run_id, epoch FROM workflow_seats INDEXED BY workflow_seats_held
        WHERE limit_name = ?1 AND epoch IS NOT NULL LIMIT +?2
    ) AS s CROSS JOIN workflow_runs AS r ON r.id = s.run_id AND +r.status = 'running' AND r.epoch = s.epoch
) AS held, (
    SELECT count(*) FROM (
        SELECT 1 FROM workflow_seats INDEXED BY workflow_seats_waiting WHERE limit_name = ?1 AND epoch IS NULL LIMIT +?2
    )
) AS waiting
