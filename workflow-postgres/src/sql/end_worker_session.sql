-- Called by: lease.rs and witness.rs, when an older session of the same worker still holds the lock
-- $1 of its kind $2 (1: the lease's, 2: the witness's), because its connection broke unseen.
-- Guarantees: ends only our own sessions in this database that hold exactly this lock.
SELECT pg_terminate_backend(l.pid, 2000) AS ended
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_stat_activity AS s ON s.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = $2::smallint
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
  AND l.classid = (($1::bigint >> 32) & 4294967295)::oid AND l.objid = ($1::bigint & 4294967295)::oid
  AND s.application_name = 'workflow' AND l.pid <> pg_backend_pid()
