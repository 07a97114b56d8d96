-- Called by: fork.rs, once per fork. $1 is the run that is copied, $2 the new run, $3 the first
-- position that is not kept.
-- Guarantees: copies the outcomes before that position, the failed attempts of the same steps, and
-- the patches. Of a run that was interrupted, nothing is kept from the interruption on.
WITH cut AS (
    SELECT LEAST($3, min(position)) AS position
    FROM {schema}.step_attempts
    WHERE run_id = $1 AND kind = 'interruption'
)
INSERT INTO {schema}.step_attempts
    (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
SELECT $2, a.step_key, a.attempt, a.kind, a.status, a.position, a.output, a.error, 1, a.started_at, a.completed_at
FROM cut CROSS JOIN {schema}.step_attempts AS a
WHERE a.run_id = $1 AND a.kind NOT IN ('published', 'emitted')
  AND (a.position < cut.position
       OR (a.position IS NULL AND a.kind = 'patch')
       OR (a.position IS NULL AND a.status = 'failed'
           AND EXISTS (SELECT FROM {schema}.step_attempts AS f
                       WHERE f.run_id = a.run_id AND f.step_key = a.step_key AND f.position < cut.position)))
