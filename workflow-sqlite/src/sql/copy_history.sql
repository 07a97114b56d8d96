-- Called by: fork.rs, once per fork. ?1 is the run that is copied, ?2 the new run, ?3 the first
-- position that is not kept.
-- Guarantees: copies the outcomes before that position, the failed attempts of the same steps, and
-- the patches. Of a run that was interrupted, nothing is kept from the interruption on.
WITH cut AS (
    SELECT min(?3, coalesce(min(position), ?3)) AS position
    FROM step_attempts
    WHERE run_id = ?1 AND kind = 'interruption'
)
INSERT INTO step_attempts
    (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, error, output)
SELECT ?2, a.step_key, a.attempt, a.kind, a.status, a.position, 1, a.started_at, a.completed_at, a.error, a.output
FROM cut CROSS JOIN step_attempts AS a
WHERE a.run_id = ?1 AND a.kind NOT IN ('published', 'emitted')
  AND (a.position < cut.position
       OR (a.position IS NULL AND a.kind = 'patch')
       OR (a.position IS NULL AND a.status = 'failed'
           AND EXISTS (SELECT 1 FROM step_attempts AS f
                       WHERE f.run_id = a.run_id AND f.step_key = a.step_key AND f.position < cut.position)))
