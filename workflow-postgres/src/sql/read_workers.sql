-- Called by: read.rs.
-- Guarantees: returns every recorded worker, and whether its liveness lock or that of its witness
-- is held. Reads only. A standby does not see the locks of its primary. There, each recorded
-- worker counts as living: the others remove the row of a dead one within seconds.
WITH held AS MATERIALIZED (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS lock_key
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid IN (1, 2)
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
)
SELECT w.id, w.lanes, w.retention, w.started_at,
       pg_catalog.pg_is_in_recovery() OR EXISTS (SELECT FROM held WHERE held.lock_key = w.lock_key) AS live
FROM {schema}.workflow_workers AS w
ORDER BY w.id
