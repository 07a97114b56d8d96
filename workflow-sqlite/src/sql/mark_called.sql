-- Called by: seat.rs, with waiting steps that may take a seat. ?2 is the time.
-- Guarantees: they are not called again before they have asked.
UPDATE workflow_seats SET called_at = ?2
WHERE (run_id, step_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1)) AND epoch IS NULL
