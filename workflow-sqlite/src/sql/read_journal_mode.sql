-- Called by: open.rs.
-- Guarantees: returns the journal mode of the file without a write.
PRAGMA journal_mode
