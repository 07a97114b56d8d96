-- Called by: retry.rs, in the transaction that revives a failed run. ?2 is the time.
-- Guarantees: waits that the failure left open end as dropped. So each begins anew, with its whole
-- timeout.
UPDATE step_attempts
SET status = 'succeeded', output = '[]', completed_at = max(?2, started_at)
WHERE run_id = ?1 AND status = 'running' AND kind IN ('signal', 'approval', 'event')
