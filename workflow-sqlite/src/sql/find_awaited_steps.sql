-- Called by: wait.rs. ?1 has the ids of runs, ?2 and ?3 are numbers.
-- Guarantees: one row per run, with at most ?3 rows of steps that a parked run waits for, as one
-- JSON array by step key. Of each run it reads the first ?2 rows by the primary key, and looks once
-- for a later row of a step. A long error is left out, so that its step does not count.
SELECT asked.value AS id, (
    SELECT json_group_array(json_array(found.kind, found.step_key, found.attempt, found.error))
    FROM (
        SELECT kept.kind, kept.step_key, kept.attempt, kept.error
        FROM (
            SELECT s.run_id, s.kind, s.step_key, s.attempt, s.status, s.position,
                CASE WHEN s.status <> 'failed' THEN NULL WHEN octet_length(s.error) <= 8192 THEN s.error ELSE '' END AS error
            FROM step_attempts AS s
            WHERE s.run_id = asked.value
            ORDER BY s.step_key, s.attempt
            LIMIT +?2
        ) AS kept
        WHERE kept.position IS NULL
          AND ((kept.status = 'running' AND kept.kind IN ('signal', 'approval', 'event', 'child'))
            OR (kept.status = 'failed' AND kept.kind IN ('step', 'transaction', 'compensation')))
          AND NOT EXISTS (
              SELECT 1 FROM step_attempts AS b
              WHERE b.run_id = kept.run_id AND b.step_key = kept.step_key AND b.attempt > kept.attempt
          )
        ORDER BY kept.step_key
        LIMIT +?3
    ) AS found
) AS steps
FROM json_each(?1) AS asked
