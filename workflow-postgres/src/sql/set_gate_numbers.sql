-- Called by: transfer.rs, after all gates were copied. $1 is the name of the table of gates.
-- Guarantees: the next gate gets a number of its own.
SELECT setval(pg_get_serial_sequence($1, 'id'), max(g.id)) AS last
FROM {schema}.workflow_gates AS g
HAVING count(*) > 0
