-- Called by: read.rs.
-- Guarantees: returns delivered outcomes in the order of delivery, then the other attempts by step
-- key and attempt. Returns only the last item of each stream, without its output, because a replay
-- needs only its number.
SELECT step_key, attempt, kind, status, position, CASE WHEN kind = 'emitted' AND attempt > 0 THEN NULL ELSE output END AS output,
    error, epoch, started_at, completed_at
FROM step_attempts AS a
WHERE run_id = ?1
  AND (kind <> 'emitted' OR attempt = 0
       OR attempt = (SELECT max(b.attempt) FROM step_attempts AS b WHERE b.run_id = a.run_id AND b.step_key = a.step_key))
ORDER BY position NULLS LAST, step_key, attempt
