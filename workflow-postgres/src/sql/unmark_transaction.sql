-- Called by: transaction.rs, after the statements of an author.
-- Guarantees: fails if the transaction in which the mark was set is over, or was aborted by a
-- statement that failed.
RELEASE SAVEPOINT workflow_step
