-- Called by: deletion.rs, before it deletes these runs, inside the write transaction.
-- Guarantees: returns each run that exists, with the numbers of its attempts and signals. It reads
-- no payload.
SELECT r.id,
       (SELECT count(*) FROM step_attempts AS a WHERE a.run_id = r.id) AS attempts,
       (SELECT count(*) FROM workflow_signals AS g WHERE g.run_id = r.id) AS signals
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r
WHERE r.id = c.value
