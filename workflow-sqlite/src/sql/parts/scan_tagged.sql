-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql, before ORDER BY id.
-- Guarantees: the ids of the runs between ?1 and ?2 with the tag ?4 of the value ?5.
SELECT run_id AS id FROM workflow_tags WHERE name = ?4 AND value = ?5 AND run_id > ?1 AND run_id < ?2
