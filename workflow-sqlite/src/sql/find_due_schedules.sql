-- Called by: schedule.rs, by the workers. ?1 is the time, ?2 holds the names of the schedules whose
-- input the worker computes.
-- Guarantees: returns at most ?3 schedules that are due, the longest due first, and the one that is
-- due next. Reads the index of due times up to there.
SELECT * FROM (
    SELECT name, revision, available_at, input, record
    FROM workflow_schedules
    WHERE available_at <= ?1 AND (input IS NOT NULL OR name IN (SELECT value FROM json_each(?2)))
    ORDER BY available_at, name
    LIMIT +?3
)
UNION ALL
SELECT * FROM (
    SELECT name, revision, available_at, input, record
    FROM workflow_schedules
    WHERE available_at > ?1 AND (input IS NOT NULL OR name IN (SELECT value FROM json_each(?2)))
    ORDER BY available_at
    LIMIT 1
)
