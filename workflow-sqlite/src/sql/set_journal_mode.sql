-- Called by: open.rs.
-- Guarantees: answers the mode that holds now. It may fail with BUSY at once, whatever the busy timeout.
PRAGMA journal_mode = WAL
