-- Called by: open.rs, once on connect.
-- Guarantees: reads only, and works on every server version and on a standby.
SELECT pg_catalog.pg_is_in_recovery() AS standby,
       current_setting('server_version_num')::integer AS version_number,
       current_setting('server_version') AS version,
       current_setting('transaction_read_only')::boolean AS read_only,
       current_setting('fsync')::boolean AS fsync,
       current_setting('full_page_writes')::boolean AS full_page_writes
