-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql.
-- Guarantees: the ids of at most $3 runs between $1 and $2 that are pending. Sorts them, because
-- their index is in the order in which they are due. The runs that wait were counted before.
SELECT waiting.id FROM (
    (SELECT r.id, r.status FROM {schema}.workflow_runs AS r
     WHERE r.status IN ('pending', 'parked') AND r.paused_at IS NULL
     ORDER BY r.lane_id, r.rank, r.available_at LIMIT {scan_budget} / 10 + 1)
    UNION ALL
    (SELECT p.id, p.status FROM {schema}.workflow_runs AS p
     WHERE p.paused_at IS NOT NULL ORDER BY p.id LIMIT {scan_budget} / 10 + 1)
) AS waiting
WHERE waiting.status = 'pending' AND waiting.id > $1::uuid AND waiting.id < $2::uuid
ORDER BY waiting.id {order} LIMIT $3::bigint
