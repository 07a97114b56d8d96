-- Called by: single.rs, with runs that this transaction has inserted, and keys that it has found
-- free: id, key and moment.
-- Guarantees: the runs have the keys.
UPDATE workflow_runs
SET single_key = s.value ->> 1, single_until = s.value ->> 2
FROM json_each(?1) AS s
WHERE workflow_runs.id = s.value ->> 0
