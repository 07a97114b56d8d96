-- Called by: claim.rs, for claimed runs whose input read_claimed.sql has left out.
-- Guarantees: their inputs.
SELECT id, input FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?))
