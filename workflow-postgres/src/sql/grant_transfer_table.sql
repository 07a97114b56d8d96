-- Called by: transfer.rs, in the transaction that fences the database, after
-- create_transfer_table.sql.
-- Guarantees: each role that may use the schema can read in which move the database takes part. The
-- URL in the table has no password.
GRANT SELECT ON {schema}.workflow_transfer TO PUBLIC
