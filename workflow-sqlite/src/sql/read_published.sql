-- Called by: read.rs.
-- Guarantees: the last value under this key, by the primary key.
SELECT output
FROM step_attempts
WHERE run_id = ?1 AND step_key = ?2 AND attempt = 1 AND kind = 'published'
