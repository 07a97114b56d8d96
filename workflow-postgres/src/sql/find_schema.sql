-- Called by: migrate.rs, before it touches anything.
-- Guarantees: reads only; needs no right but to connect. $1 is the schema's name.
SELECT to_regnamespace($1) IS NOT NULL AS has_schema,
       EXISTS (SELECT FROM pg_catalog.pg_class AS c
               WHERE c.relnamespace = to_regnamespace($1) AND c.relname = 'workflow_schema') AS has_version
