-- Called by: lease.rs. $1 is the worker that asks.
-- Guarantees: reads only. Two workers that ask at the same time do not mistake each other's
-- question for a lock. If the asking worker is not recorded, its id is returned too.
WITH held AS MATERIALIZED (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS lock_key
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
)
SELECT w.id FROM {schema}.workflow_workers AS w
WHERE w.id <> $1 AND NOT EXISTS (SELECT FROM held WHERE held.lock_key = w.lock_key)
UNION ALL
SELECT $1 WHERE NOT EXISTS (SELECT FROM {schema}.workflow_workers AS w WHERE w.id = $1)
ORDER BY id
