-- Called by: migrate.rs, under the migration lock and only if the schema is missing, because it
-- needs the right to create one.
-- Guarantees: the schema exists.
CREATE SCHEMA IF NOT EXISTS {schema}
