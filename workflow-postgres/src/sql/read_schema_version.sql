-- Called by: migrate.rs, once it knows that the table exists, and system.rs.
-- Guarantees: returns one row: 0 if no migration was recorded.
SELECT COALESCE(max(v.version), 0) AS version FROM {schema}.workflow_schema AS v
