-- Called by: schedule.rs, by the workers. $2 are the names of the schedules whose input the worker
-- computes.
-- Guarantees: returns the time, at most $3 schedules that are due, the longest due first, and the
-- one that is due next. The time alone if there are none. Reads the index of due times up to there.
SELECT moment.now, s.name, s.revision, s.available_at, s.input, s.record
FROM (SELECT {now} AS now) AS moment LEFT JOIN LATERAL ((
    SELECT * FROM {schema}.workflow_schedules AS s
    WHERE s.available_at <= {now} AND (s.input IS NOT NULL OR s.name = ANY($2))
    ORDER BY s.available_at, s.name
    LIMIT $3
) UNION ALL (
    SELECT * FROM {schema}.workflow_schedules AS s
    WHERE s.available_at > {now} AND (s.input IS NOT NULL OR s.name = ANY($2))
    ORDER BY s.available_at
    LIMIT 1
)) AS s ON true
