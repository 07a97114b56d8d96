-- Called by: seat.rs, with steps whose attempts have ended, or that wait no more, of runs that
-- lock_runs.sql has locked.
-- Guarantees: these steps have no seat and do not wait for one.
DELETE FROM {schema}.workflow_seats AS s
USING (SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key) AS d
WHERE s.run_id = d.run_id AND s.step_key = d.step_key
