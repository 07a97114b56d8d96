-- Called by: migrate.rs, in the transaction that applied the migration.
-- Guarantees: records that the migration was applied.
INSERT INTO workflow_schema (version) VALUES (?1)
