-- Called by: transaction.rs, before the statements of an author.
-- Guarantees: the mark is gone once the transaction is, so that a COMMIT or ROLLBACK of the author's own is found out.
SAVEPOINT workflow_step
