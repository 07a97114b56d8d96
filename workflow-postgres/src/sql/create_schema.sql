-- Called by: migrate.rs, under the migration lock and only if the schema is missing, for it needs the right to create.
-- Guarantees: the schema is there.
CREATE SCHEMA IF NOT EXISTS {schema}
