-- Called by: timeline.rs, once on every new session.
-- Guarantees: reads only, and needs no right. Returns one row: the number that all copies of one
-- database share, and the timeline on which this server writes, which is NULL on a standby. The
-- timeline of the last checkpoint would lag behind a promotion. The name of a file of the log
-- begins with its timeline, in hexadecimal digits.
SELECT control.system_identifier,
       CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN
           ('x' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::bigint
       END AS timeline
FROM pg_catalog.pg_control_system() AS control
