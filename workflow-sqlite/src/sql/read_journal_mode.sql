-- Called by: open.rs and pool.rs.
-- Guarantees: returns the journal mode of the file without a write.
PRAGMA journal_mode
