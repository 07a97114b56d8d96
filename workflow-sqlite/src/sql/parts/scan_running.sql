-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql, before ORDER BY id.
-- Guarantees: the ids of the runs between ?1 and ?2 that are running. Sorts them, because their
-- index is in the order of the leases. Their number was counted before.
SELECT id FROM (
    SELECT id FROM workflow_runs INDEXED BY workflow_runs_running WHERE status = 'running' LIMIT 20001
) WHERE id > ?1 AND id < ?2
