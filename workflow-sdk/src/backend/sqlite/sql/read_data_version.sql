-- Called by: hints.rs, every few milliseconds; plain.rs, as its transaction begins.
-- Guarantees: another number than before once another connection has committed.
PRAGMA data_version
