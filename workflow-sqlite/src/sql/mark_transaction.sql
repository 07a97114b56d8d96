-- Called by: transaction.rs, before the statements of an author.
-- Guarantees: the mark vanishes with the transaction, so that a COMMIT or ROLLBACK by the author is
-- noticed.
SAVEPOINT workflow_step
