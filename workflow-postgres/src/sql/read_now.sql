-- Called by: read.rs.
-- Guarantees: reads no table.
SELECT {now} AS now
