-- Called by: transaction.rs, after the statements of an author.
-- Guarantees: fails if the transaction in which the mark was set has ended, or if a failed
-- statement has spoilt it.
RELEASE SAVEPOINT workflow_step
