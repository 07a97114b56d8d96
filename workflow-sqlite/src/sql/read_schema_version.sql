-- Called by: migrate.rs and system.rs.
-- Guarantees: returns the version of the newest applied migration; 0 if there is none.
SELECT coalesce(max(version), 0) FROM workflow_schema
