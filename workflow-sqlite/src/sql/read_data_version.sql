-- Called by: hints.rs, at its checks; writer.rs, as each transaction begins; change.rs.
-- Guarantees: returns another number than before if another connection has committed.
PRAGMA data_version
