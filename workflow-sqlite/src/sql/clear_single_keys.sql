-- Called by: single.rs, with runs that are replaced.
-- Guarantees: the runs have no single key.
UPDATE workflow_runs
SET single_key = NULL, single_until = NULL
WHERE id IN (SELECT value FROM json_each(?1))
