-- Called by: retry.rs, in the transaction that gives the runs another attempt. ?1 has their ids, ?2
-- is the time.
-- Guarantees: waits and sleeps that the failure left open end as dropped. So each begins anew, with
-- its whole time. The row has no output: a text of the database would not be that of a codec.
UPDATE step_attempts
SET status = 'succeeded', output = NULL, completed_at = max(?2, started_at)
WHERE run_id IN (SELECT value FROM json_each(?1)) AND status = 'running'
  AND kind IN ('sleep', 'signal', 'approval', 'event')
