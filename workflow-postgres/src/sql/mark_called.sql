-- Called by: seat.rs, with waiting steps that may take a seat, of runs that lock_runs.sql has
-- locked.
-- Guarantees: they are not called again before they have asked.
UPDATE {schema}.workflow_seats AS s SET called_at = {now}
FROM (SELECT unnest($2::uuid[]) AS run_id, unnest($3::text[]) AS step_key) AS c
WHERE s.run_id = c.run_id AND s.step_key = c.step_key AND s.epoch IS NULL
