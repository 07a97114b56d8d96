-- Called by: signal.rs, with runs that got a signal or whose child ended.
-- Guarantees: a parked run is due now. A running one keeps its lease, but cannot park before it has
-- looked again.
UPDATE workflow_runs
SET wakes = wakes + 1,
    available_at = CASE WHEN status = 'parked' THEN min(available_at, ?2) ELSE available_at END
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('pending', 'running', 'parked')
