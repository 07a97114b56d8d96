-- Called by: retry.rs, in the transaction that gives the runs another attempt. $1 is the time, $2
-- has their ids.
-- Guarantees: waits and sleeps that the failure left open end as dropped. So each begins anew, with
-- its whole time. The row has no output: a text of the database would not be that of a codec.
UPDATE {schema}.step_attempts AS a
SET status = 'succeeded', output = NULL, completed_at = GREATEST({now}, a.started_at)
WHERE a.run_id = ANY ($2::uuid[]) AND a.status = 'running' AND a.kind IN ('sleep', 'signal', 'approval', 'event')
