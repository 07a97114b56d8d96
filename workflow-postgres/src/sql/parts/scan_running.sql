-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql.
-- Guarantees: the ids of at most $3 runs between $1 and $2 that are running. Sorts them, because
-- their index is in the order of the leases. Their number was counted before.
SELECT held.id FROM (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.status = 'running' ORDER BY r.lane_id, r.available_at LIMIT {scan_budget} + 1
) AS held
WHERE held.id > $1::uuid AND held.id < $2::uuid ORDER BY held.id {order} LIMIT $3::bigint
