-- Called by: hints.rs, every few milliseconds.
-- Guarantees: another number than before once another connection has committed.
PRAGMA data_version
