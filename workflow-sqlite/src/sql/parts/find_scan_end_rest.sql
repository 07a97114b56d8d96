-- Called by: scan.rs, as the end of find_scan_end.sql.
-- Guarantees: skips the rows before the last one.
) LIMIT 1 OFFSET +?3 - 1
