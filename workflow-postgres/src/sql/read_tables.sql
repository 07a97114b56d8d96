-- Called by: system.rs. $1 is the name of the schema.
-- Guarantees: the tables of the engine with their sizes, and the rows that the server estimates.
-- Reads no row of them. An estimate is never below that of the last vacuum or analysis.
SELECT c.relname::text AS name,
       COALESCE(pg_total_relation_size(c.oid), 0) AS bytes,
       GREATEST(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0) AS live_rows,
       COALESCE(pg_stat_get_dead_tuples(c.oid), 0) AS dead_rows
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r'
  AND (c.relname LIKE 'workflow\_%' OR c.relname = 'step_attempts')
ORDER BY c.relname
