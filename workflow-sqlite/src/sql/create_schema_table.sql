-- Called by: migrate.rs, inside its write transaction.
-- Guarantees: the table of applied migrations exists.
CREATE TABLE IF NOT EXISTS workflow_schema (version INTEGER NOT NULL PRIMARY KEY) STRICT
