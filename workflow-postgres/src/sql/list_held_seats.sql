-- Called by: seat.rs. $1 is a limit, $2 and $3 the key and time of the seat before, $4 a number.
-- Guarantees: the seats of the limit that were taken, behind that one, by key and time. Reads no
-- more than $4 of them, each with its run.
SELECT taken.run_id AS id, taken.step_key, taken.key, taken.asked_at, taken.called_at, taken.asks_at, taken.epoch,
       run.workflow_name, run.status, run.epoch AS run_epoch
FROM (
    SELECT s.run_id, s.step_key, s.key, s.asked_at, s.called_at, s.asks_at, s.epoch
    FROM {schema}.workflow_seats AS s
    WHERE s.limit_name = $1 AND (s.key, s.asked_at) > ($2, $3) AND s.epoch IS NOT NULL
    ORDER BY s.key, s.asked_at
    LIMIT $4
) AS taken
CROSS JOIN LATERAL (
    SELECT r.workflow_name, r.status, r.epoch FROM {schema}.workflow_runs AS r WHERE r.id = taken.run_id LIMIT 1
) AS run
ORDER BY taken.key, taken.asked_at
