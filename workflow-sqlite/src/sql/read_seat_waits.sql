-- Called by: seat.rs.
-- Guarantees: the steps of a run that wait for a seat, in the order of their keys.
SELECT step_key, limit_name, key, asked_at FROM workflow_seats WHERE run_id = ?1 AND epoch IS NULL ORDER BY step_key
