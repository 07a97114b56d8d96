-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql, before ORDER BY id.
-- Guarantees: the ids of the runs between ?1 and ?2 with the key ?4, one per workflow. Every
-- workflow has a lane without a gate.
SELECT r.id AS id FROM (SELECT DISTINCT workflow_name FROM workflow_lanes WHERE id > 0) AS w
CROSS JOIN workflow_runs AS r INDEXED BY workflow_runs_key ON r.workflow_name = w.workflow_name AND r.key = ?4
WHERE r.id > ?1 AND r.id < ?2
