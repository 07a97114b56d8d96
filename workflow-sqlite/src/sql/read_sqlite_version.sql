-- Called by: open.rs, before anything touches the file, and system.rs.
-- Guarantees: returns the version of the library in use, not of the headers that were compiled
-- against.
SELECT sqlite_version()
