-- Called by: open.rs and system.rs, on a standby.
-- Guarantees: reads only. Returns one row: the address of the primary, which is NULL if the role
-- may not see it or if no connection to the primary is open; and the age of the state that the
-- standby shows, in milliseconds. Without an open connection, the standby cannot know that it shows
-- everything, so the age of the last transaction counts.
SELECT receiver.primary_address,
       CASE
           WHEN receiver.is_open AND pg_catalog.pg_last_wal_receive_lsn() = pg_catalog.pg_last_wal_replay_lsn() THEN 0
           ELSE (extract(epoch FROM clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) * 1000)::bigint
       END AS lag_millis
FROM (
    SELECT count(*) > 0 AS is_open, min(w.sender_host || ':' || w.sender_port::text) AS primary_address
    FROM pg_catalog.pg_stat_wal_receiver AS w
) AS receiver
