-- Called by: migrate.rs, under the migration lock.
-- Guarantees: the table of the schema version exists.
CREATE TABLE IF NOT EXISTS {schema}.workflow_schema (version bigint NOT NULL PRIMARY KEY)
