-- Called by: open.rs.
-- Guarantees: returns the journal mode that holds now. It may fail with BUSY at once, whatever the
-- busy timeout.
PRAGMA journal_mode = WAL
