-- Called by: retry.rs, in the transaction that gives the runs another attempt. ?1 holds pairs of
-- run and step key.
-- Guarantees: changes final failures only: each becomes a failed attempt that another one follows.
UPDATE step_attempts
SET position = NULL
FROM json_each(?1) AS s
WHERE run_id = s.value ->> 0 AND step_key = s.value ->> 1 AND status = 'failed' AND position IS NOT NULL
