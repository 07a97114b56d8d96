-- Called by: system.rs, on the connection that writes.
-- Guarantees: returns the setting of this connection as a number, without a write.
PRAGMA synchronous
