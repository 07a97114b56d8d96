-- Called by: migrate.rs, in the transaction that applied the migration $1.
-- Guarantees: the version is recorded if and only if the migration was applied.
INSERT INTO {schema}.workflow_schema (version) VALUES ($1)
