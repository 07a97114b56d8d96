-- Called by: migrate.rs, before it changes anything.
-- Guarantees: returns whether the database was migrated before, and whether it has the table of
-- lanes. Reads only.
SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'workflow_schema'),
       EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'workflow_lanes')
