-- Called by: scan.rs, as the source of find_scan_end.sql and list_runs.sql, before ORDER BY id.
-- Guarantees: the ids of the runs between ?1 and ?2 that are pending. Sorts them, because their
-- index is in the order in which they are due. The runs that wait were counted before.
SELECT id FROM (
    SELECT id, status FROM (
        SELECT id, status FROM workflow_runs INDEXED BY workflow_runs_due
        WHERE status IN ('pending', 'parked') AND paused_at IS NULL LIMIT 2001
    )
    UNION ALL
    SELECT id, status FROM (
        SELECT id, status FROM workflow_runs INDEXED BY workflow_runs_paused WHERE paused_at IS NOT NULL LIMIT 2001
    )
) WHERE status = 'pending' AND id > ?1 AND id < ?2
