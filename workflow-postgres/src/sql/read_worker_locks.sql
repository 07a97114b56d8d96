-- Called by: lease.rs.
-- Guarantees: reads only. Returns each recorded worker, and whether a session holds its lock or
-- that of its witness. Two workers that ask at the same time do not mistake each other's question
-- for a lock.
WITH held AS MATERIALIZED (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS lock_key
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid IN (1, 2)
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
)
SELECT w.id, EXISTS (SELECT FROM held WHERE held.lock_key = w.lock_key) AS is_held
FROM {schema}.workflow_workers AS w
ORDER BY w.id
