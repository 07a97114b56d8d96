-- Called by: hints.rs, every few milliseconds; writer.rs, as each transaction begins.
-- Guarantees: another number than before once another connection has committed.
PRAGMA data_version
