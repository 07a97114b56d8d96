-- Called by: change.rs.
-- Guarantees: returns another text than before if a transaction that wrote has committed in
-- between. A snapshot names the transactions that are under way, so each commit changes it,
-- whatever the order in which the transactions began. Reads no table.
SELECT pg_catalog.pg_current_snapshot()::text AS version
