-- Called by: system.rs.
-- Guarantees: reads only settings that each role may read. The clock is that of the moment, not of
-- the statement's beginning.
SELECT current_setting('server_version') AS version,
       current_setting('fsync')::boolean AS fsync,
       current_setting('full_page_writes')::boolean AS full_page_writes,
       current_user::text AS role,
       pg_catalog.pg_is_in_recovery() AS standby,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS clock
