-- Called by: transaction.rs, before the statements of an author.
-- Guarantees: the mark ends with the transaction, so that a COMMIT or ROLLBACK by the author is
-- detected.
SAVEPOINT workflow_step
