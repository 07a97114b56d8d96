-- Called by: migrate.rs, first in its transaction.
-- Guarantees: one process at a time migrates a schema; the lock ends with the transaction. $1 names the schema.
SELECT pg_advisory_xact_lock($1)
