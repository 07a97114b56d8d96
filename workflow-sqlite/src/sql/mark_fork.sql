-- Called by: fork.rs, with a run that this transaction has started, or an earlier one whose reply
-- was lost.
-- Guarantees: returns the run once, and only before its first claim. Because its epoch is 1 then,
-- its worker reads its history.
UPDATE workflow_runs SET epoch = 1 WHERE id = ?1 AND epoch = 0 RETURNING id
