-- Called by: count.rs. ?1 is a number, ?2 the time.
-- Guarantees: looks at ?1 entries of each of the partial indexes at most, and at ?1 lanes for due
-- runs. Reads no run itself but paused ones: that is ten times as dear as an entry of an index.
SELECT * FROM (
    SELECT min(count(*), ?1) AS waiting,
        count(*) FILTER (WHERE status = 'pending') AS pending,
        count(*) FILTER (WHERE status = 'parked') AS parked,
        count(*) FILTER (WHERE status = 'pending' AND available_at > ?2) AS delayed,
        count(*) FILTER (WHERE paused_at IS NOT NULL) AS paused
    FROM (
        SELECT status, available_at, paused_at FROM (
            SELECT status, available_at, paused_at FROM workflow_runs INDEXED BY workflow_runs_due
            WHERE status IN ('pending', 'parked') AND paused_at IS NULL LIMIT +?1
        )
        UNION ALL
        SELECT status, available_at, paused_at FROM (
            SELECT status, available_at, paused_at FROM workflow_runs INDEXED BY workflow_runs_paused
            WHERE paused_at IS NOT NULL AND status IN ('pending', 'parked') LIMIT +?1
        )
    )
) CROSS JOIN (
    SELECT count(*) AS stuck
    FROM (
        SELECT 1 FROM workflow_runs INDEXED BY workflow_runs_stuck
        WHERE status = 'parked' AND error IS NOT NULL LIMIT +?1
    )
) CROSS JOIN (
    SELECT count(*) AS running, count(*) FILTER (WHERE r.paused_at IS NOT NULL) AS running_paused
    FROM (
        SELECT id FROM workflow_runs INDEXED BY workflow_runs_running WHERE status = 'running' LIMIT +?1
    ) AS s CROSS JOIN workflow_runs AS r ON r.id = s.id
) CROSS JOIN (
    SELECT count(*) AS ended, count(*) FILTER (WHERE status = 'failed') AS failed
    FROM (
        SELECT status FROM workflow_runs INDEXED BY workflow_runs_failed
        WHERE status IN ('failed', 'canceled') ORDER BY id DESC LIMIT +?1
    )
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
