-- Called by: transfer.rs, last in a transaction that copied rows. $1 is how far the copy has come.
-- Guarantees: the rows and the cursor are one commit, and the fence lets nothing pass again.
UPDATE {schema}.workflow_transfer SET writes = 0, cursor = $1 WHERE role = 'target'
