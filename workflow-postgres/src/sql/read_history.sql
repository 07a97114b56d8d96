-- Called by: read.rs, once per claim.
-- Guarantees: returns the outcomes in the order in which they were delivered, then the rows without
-- a position in a fixed order. Of a stream it returns only the last item, without the output,
-- because a replay needs nothing but its number.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position,
       CASE WHEN a.kind = 'emitted' AND a.attempt > 0 THEN NULL ELSE a.output END AS output,
       a.error, a.epoch, a.started_at, a.completed_at
FROM {schema}.step_attempts AS a
WHERE a.run_id = $1
  AND (a.kind <> 'emitted' OR a.attempt = 0
       OR a.attempt = (SELECT max(b.attempt) FROM {schema}.step_attempts AS b
                       WHERE b.run_id = a.run_id AND b.step_key = a.step_key))
ORDER BY a.position NULLS LAST, a.step_key, a.attempt
