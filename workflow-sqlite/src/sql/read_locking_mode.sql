-- Called by: pool.rs.
-- Guarantees: returns the locking mode of the connection without a write.
PRAGMA locking_mode
