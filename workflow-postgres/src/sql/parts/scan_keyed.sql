-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql.
-- Guarantees: the ids of at most $3 runs between $1 and $2 with the key $4, one per workflow.
-- Every workflow has a lane without a gate.
SELECT r.id FROM (SELECT DISTINCT lane.workflow_name FROM {schema}.workflow_lanes AS lane WHERE lane.id > 0) AS w
CROSS JOIN LATERAL (
    SELECT own.id FROM {schema}.workflow_runs AS own
    WHERE own.workflow_name = w.workflow_name AND own.key = $4::text LIMIT 1
) AS r
WHERE r.id > $1::uuid AND r.id < $2::uuid ORDER BY r.id {order} LIMIT $3::bigint
