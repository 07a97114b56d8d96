-- Called by: count.rs. $2 is a number.
-- Guarantees: looks at $2 entries of each of the partial indexes at most, and at $2 lanes for due
-- runs.
SELECT w.waiting, w.pending, w.parked, w.delayed, w.paused, s.stuck, g.running, g.running_paused, e.ended, e.failed, d.due
FROM (
    SELECT LEAST(count(*), $2) AS waiting,
           count(*) FILTER (WHERE r.status = 'pending') AS pending,
           count(*) FILTER (WHERE r.status = 'parked') AS parked,
           count(*) FILTER (WHERE r.status = 'pending' AND r.available_at > {now}) AS delayed,
           count(*) FILTER (WHERE r.is_paused) AS paused
    FROM (
        (SELECT r.status, r.available_at, false AS is_paused
         FROM {schema}.workflow_runs AS r
         WHERE r.status IN ('pending', 'parked') AND r.paused_at IS NULL
         ORDER BY r.lane_id, r.rank, r.available_at
         LIMIT $2)
        UNION ALL
        (SELECT p.status, p.available_at, true AS is_paused
         FROM {schema}.workflow_runs AS p
         WHERE p.paused_at IS NOT NULL AND p.status IN ('pending', 'parked')
         ORDER BY p.id DESC
         LIMIT $2)
    ) AS r
) AS w
CROSS JOIN (
    SELECT count(*) AS stuck
    FROM (
        SELECT 1 FROM {schema}.workflow_runs AS r WHERE r.status = 'parked' AND r.error IS NOT NULL LIMIT $2
    ) AS r
) AS s
CROSS JOIN (
    SELECT count(*) AS running, count(*) FILTER (WHERE r.is_paused) AS running_paused
    FROM (
        SELECT r.paused_at IS NOT NULL AS is_paused FROM {schema}.workflow_runs AS r WHERE r.status = 'running' LIMIT $2
    ) AS r
) AS g
CROSS JOIN (
    SELECT count(*) AS ended, count(*) FILTER (WHERE r.status = 'failed') AS failed
    FROM (
        SELECT r.status FROM {schema}.workflow_runs AS r
        WHERE r.status IN ('failed', 'canceled')
        ORDER BY r.id DESC
        LIMIT $2
    ) AS r
) AS e
CROSS JOIN (
    SELECT count(*) AS due
    FROM (
        SELECT 1
        FROM (SELECT l.id FROM {schema}.workflow_lanes AS l ORDER BY l.id DESC LIMIT $2) AS lane
        CROSS JOIN (SELECT unnest({ranks}) AS number) AS rank
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.workflow_runs AS r
            WHERE r.lane_id = lane.id AND r.rank = rank.number AND r.available_at <= {now}
              AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
            ORDER BY r.available_at, r.id
            LIMIT $2
        ) AS waiting
        LIMIT $2
    ) AS r
) AS d
