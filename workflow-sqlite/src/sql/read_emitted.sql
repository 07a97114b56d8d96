-- Called by: read.rs, for every reader of a stream.
-- Guarantees: reads only the items that it returns, by the primary key, however long the stream is.
SELECT attempt, output
FROM step_attempts
WHERE run_id = ?1 AND step_key = ?2 AND attempt > max(?3, 0) AND kind = 'emitted'
ORDER BY attempt
LIMIT +?4
