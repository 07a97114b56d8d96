-- Called by: rerun.rs, with a run that the same transaction, or an earlier one whose reply was lost, has started.
-- Guarantees: answers the run once, before its first claim; its worker then looks for a history.
UPDATE {schema}.workflow_runs SET epoch = 1 WHERE id = $1 AND epoch = 0 RETURNING id
