-- Called by: migrate.rs.
-- Guarantees: returns one row if the database was migrated before.
SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'workflow_schema'
