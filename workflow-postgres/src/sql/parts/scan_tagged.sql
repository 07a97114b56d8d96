-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql.
-- Guarantees: the ids of at most $3 runs between $1 and $2 with the tag $4 of the value $5.
SELECT t.run_id AS id FROM {schema}.workflow_tags AS t
WHERE t.name = $4::text AND t.value = $5::text AND t.run_id > $1::uuid AND t.run_id < $2::uuid
ORDER BY t.run_id {order} LIMIT $3::bigint
