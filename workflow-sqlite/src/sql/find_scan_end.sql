-- Called by: scan.rs, before a source (parts/) in an order of its ids and find_scan_end_rest.sql.
-- Guarantees: the id of row ?3 of the source; nothing if it has fewer rows. ?4 and ?5 are the
-- values that some sources need.
SELECT id FROM (
