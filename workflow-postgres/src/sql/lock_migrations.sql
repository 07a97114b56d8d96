-- Called by: migrate.rs, first in its transaction. $1 is the name of the schema.
-- Guarantees: one process at a time migrates a schema. The lock ends with the transaction.
SELECT pg_advisory_xact_lock($1)
