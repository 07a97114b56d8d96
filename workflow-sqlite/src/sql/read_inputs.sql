-- Called by: claim.rs, for claimed runs whose input read_claimed.sql has left out.
-- Guarantees: returns the input of each of these runs.
SELECT id, input FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?))
