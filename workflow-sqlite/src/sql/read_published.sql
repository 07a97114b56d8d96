-- Called by: read.rs.
-- Guarantees: returns the last value published under this key. Reads by the primary key.
SELECT output
FROM step_attempts
WHERE run_id = ?1 AND step_key = ?2 AND attempt = 1 AND kind = 'published'
