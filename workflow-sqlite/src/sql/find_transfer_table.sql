-- Called by: transfer.rs.
-- Guarantees: returns whether the database has the table of transfers. Reads only.
SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'workflow_transfer')
