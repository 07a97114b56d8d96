-- Called by: read.rs, for a client that follows a stream.
-- Guarantees: reads only the items that it returns, by the primary key, however long the stream is.
SELECT a.attempt, a.output
FROM {schema}.step_attempts AS a
WHERE a.run_id = $1 AND a.step_key = $2 AND a.attempt > GREATEST($3::bigint, 0) AND a.kind = 'emitted'
ORDER BY a.attempt
LIMIT $4
