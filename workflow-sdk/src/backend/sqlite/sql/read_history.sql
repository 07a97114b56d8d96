-- Called by: read.rs.
-- Guarantees: delivered outcomes in the order of delivery, then the other attempts by step key and attempt.
SELECT step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at
FROM step_attempts
WHERE run_id = ?1
ORDER BY position NULLS LAST, step_key, attempt
