-- Called by: read.rs.
-- Guarantees: returns the last value under this key, by the primary key.
SELECT a.output
FROM {schema}.step_attempts AS a
WHERE a.run_id = $1 AND a.step_key = $2 AND a.attempt = 1 AND a.kind = 'published'
