-- Called by: seat.rs, with steps whose attempts have ended, or that wait no more.
-- Guarantees: these steps have no seat and do not wait for one.
DELETE FROM workflow_seats
WHERE (run_id, step_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
