-- Called by: count.rs. ?1 is a number, ?2 the time.
-- Guarantees: looks at ?1 entries of each of the partial indexes at most, and at ?1 lanes for due
-- runs.
SELECT * FROM (
    SELECT min(count(*), ?1) AS waiting,
        count(*) FILTER (WHERE r.status = 'pending') AS pending,
        count(*) FILTER (WHERE r.status = 'parked') AS parked,
        count(*) FILTER (WHERE r.status = 'pending' AND r.available_at > ?2) AS delayed,
        count(*) FILTER (WHERE r.paused_at IS NOT NULL) AS paused,
        count(*) FILTER (WHERE r.status = 'parked' AND r.error IS NOT NULL) AS stuck
    FROM (
        SELECT id FROM (
            SELECT id FROM workflow_runs INDEXED BY workflow_runs_due
            WHERE status IN ('pending', 'parked') AND paused_at IS NULL LIMIT +?1
        )
        UNION ALL
        SELECT id FROM (
            SELECT id FROM workflow_runs INDEXED BY workflow_runs_paused
            WHERE paused_at IS NOT NULL AND status IN ('pending', 'parked') LIMIT +?1
        )
    ) AS s CROSS JOIN workflow_runs AS r ON r.id = s.id
) CROSS JOIN (
    SELECT count(*) AS running, count(*) FILTER (WHERE r.paused_at IS NOT NULL) AS running_paused
    FROM (
        SELECT id FROM workflow_runs INDEXED BY workflow_runs_running WHERE status = 'running' LIMIT +?1
    ) AS s CROSS JOIN workflow_runs AS r ON r.id = s.id
) CROSS JOIN (
    SELECT count(*) AS ended, count(*) FILTER (WHERE r.status = 'failed') AS failed
    FROM (
        SELECT id FROM workflow_runs INDEXED BY workflow_runs_failed
        WHERE status IN ('failed', 'canceled') ORDER BY id DESC LIMIT +?1
    ) AS s CROSS JOIN workflow_runs AS r ON r.id = s.id
) CROSS JOIN (
    SELECT count(*) AS due
    FROM (
        SELECT 1
        FROM (SELECT id FROM workflow_lanes ORDER BY id DESC LIMIT +?1) AS l
        CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS known
        CROSS JOIN workflow_runs AS r INDEXED BY workflow_runs_due
        WHERE r.lane_id = l.id AND r.rank = known.rank AND r.available_at <= ?2
          AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        LIMIT +?1
    )
)
