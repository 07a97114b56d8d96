-- Called by: system.rs.
-- Guarantees: one row: the transaction of another session of this database that has been open for
-- the longest time, if there is one, and how many sessions do not show theirs to this role. The
-- server's own processes do not count.
SELECT hidden.sessions AS hidden, oldest.pid, oldest.application, oldest.age_millis
FROM (
    SELECT count(*) AS sessions
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.usesysid IS NOT NULL AND a.query = '<insufficient privilege>'
) AS hidden
LEFT JOIN LATERAL (
    SELECT a.pid, COALESCE(a.application_name, '') AS application,
           (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS age_millis
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.usesysid IS NOT NULL AND a.pid <> pg_backend_pid()
      AND a.xact_start IS NOT NULL
    ORDER BY a.xact_start
    LIMIT 1
) AS oldest ON true
