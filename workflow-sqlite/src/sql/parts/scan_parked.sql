-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql, before ORDER BY id.
-- Guarantees: the ids of the runs between ?1 and ?2 that are parked.
SELECT id FROM workflow_runs INDEXED BY workflow_runs_parked
WHERE status = 'parked' AND id > ?1 AND id < ?2
