-- Called by: within.rs, before it writes on a connection that the application opened, and pool.rs.
-- Guarantees: returns the path of the connection's main database; empty if it is in memory.
SELECT file FROM pragma_database_list WHERE name = 'main'
