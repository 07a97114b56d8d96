-- Called by: scan.rs, for the source of a list. $4 and $5 are the values that some sources need.
-- Guarantees: the id of row $3 of the source, in the order of the scan; nothing if it has fewer.
WITH asked AS (SELECT $4::text AS name, $5::text AS value)
SELECT s.id FROM ({source}) AS s ORDER BY s.id {order} LIMIT 1 OFFSET $3::bigint - 1
