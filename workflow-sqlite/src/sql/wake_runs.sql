-- Called by: signal.rs and family.rs, with runs that something has happened to.
-- Guarantees: a parked run is due now; a running one keeps its lease, but cannot park without having looked again.
UPDATE workflow_runs
SET wakes = wakes + 1,
    available_at = CASE WHEN status = 'parked' THEN min(available_at, ?2) ELSE available_at END
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('pending', 'running', 'parked')
