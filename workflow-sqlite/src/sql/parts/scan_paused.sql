-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql, before ORDER BY id.
-- Guarantees: the ids of the runs between ?1 and ?2 that are paused.
SELECT id FROM workflow_runs INDEXED BY workflow_runs_paused
WHERE paused_at IS NOT NULL AND id > ?1 AND id < ?2
