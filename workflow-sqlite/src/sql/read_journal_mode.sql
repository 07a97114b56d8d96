-- Called by: open.rs, pool.rs and system.rs.
-- Guarantees: returns the journal mode of the file without a write.
PRAGMA journal_mode
