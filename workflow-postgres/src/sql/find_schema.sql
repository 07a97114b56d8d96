-- Called by: migrate.rs, before it changes anything. $1 is the name of the schema.
-- Guarantees: reads only, and needs no right except to connect.
SELECT to_regnamespace($1) IS NOT NULL AS has_schema,
       EXISTS (SELECT FROM pg_catalog.pg_class AS c
               WHERE c.relnamespace = to_regnamespace($1) AND c.relname = 'workflow_schema') AS has_versions,
       EXISTS (SELECT FROM pg_catalog.pg_class AS c
               WHERE c.relnamespace = to_regnamespace($1) AND c.relname = 'workflow_lanes') AS has_lanes
