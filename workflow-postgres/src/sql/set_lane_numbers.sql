-- Called by: transfer.rs, after all lanes were copied. $1 is the name of the table of lanes.
-- Guarantees: the next lane gets a number of its own. Lanes behind gates have the numbers below 0.
SELECT setval(pg_get_serial_sequence($1, 'id'), max(abs(l.id))) AS last
FROM {schema}.workflow_lanes AS l
HAVING count(*) > 0
