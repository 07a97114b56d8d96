-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql.
-- Guarantees: the ids of at most $3 runs between $1 and $2 that are paused.
SELECT r.id FROM {schema}.workflow_runs AS r
WHERE r.paused_at IS NOT NULL AND r.id > $1::uuid AND r.id < $2::uuid
ORDER BY r.id {order} LIMIT $3::bigint
