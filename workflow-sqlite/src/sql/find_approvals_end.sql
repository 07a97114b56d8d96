-- Called by: read.rs, before list_approvals.sql. ?1, ?2 and ?3 are the time, run and step of a
-- wait, ?4 is a number.
-- Guarantees: the place at which a budget of ?4 waits behind that one ends; nothing if there are
-- fewer. The waits of runs that have ended count. Reads entries of the index in its order.
SELECT a.started_at, a.run_id, a.step_key
FROM step_attempts AS a
WHERE a.status = 'running'
  AND (a.kind = 'approval' OR (a.kind = 'signal' AND instr('/' || a.step_key, '/decision:') > 0))
  AND (a.started_at, a.run_id, a.step_key) > (?1, ?2, ?3)
ORDER BY a.started_at, a.run_id, a.step_key
LIMIT 1 OFFSET ?4 - 1
