-- Called by: open.rs.
-- Guarantees: the mode of the file, without a write.
PRAGMA journal_mode
