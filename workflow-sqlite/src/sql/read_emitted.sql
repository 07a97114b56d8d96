-- Called by: read.rs, by whoever follows a stream.
-- Guarantees: reads only items that it answers, by the primary key, however long the stream is.
SELECT attempt, output
FROM step_attempts
WHERE run_id = ?1 AND step_key = ?2 AND attempt > max(?3, 0) AND kind = 'emitted'
ORDER BY attempt
LIMIT +?4
