-- Called by: transfer.rs. $1 is the table of transfers, with its schema.
-- Guarantees: returns whether the database has that table. Reads only.
SELECT to_regclass($1) IS NOT NULL AS found
