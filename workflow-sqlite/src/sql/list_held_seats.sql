-- Called by: seat.rs. ?1 is a limit, ?2 and ?3 the key and time of the seat before, ?4 a number.
-- Guarantees: the seats of the limit that were taken, behind that one, by key and time. Reads no
-- more than ?4 of them, each with its run.
SELECT s.run_id AS id, s.step_key, s.key, s.asked_at, s.called_at, s.asks_at, s.epoch, r.workflow_name, r.status,
       r.epoch AS run_epoch
FROM workflow_seats AS s INDEXED BY workflow_seats_held CROSS JOIN workflow_runs AS r ON r.id = s.run_id
WHERE s.limit_name = ?1 AND (s.key, s.asked_at) > (?2, ?3) AND s.epoch IS NOT NULL
ORDER BY s.key, s.asked_at
LIMIT +?4
