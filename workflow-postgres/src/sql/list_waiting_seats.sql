-- Called by: seat.rs. $1 is a limit, $2 and $3 the key and time of the seat before, $4 a number.
-- Guarantees: the steps that wait for a seat of the limit, behind that one, by key and time. Reads
-- no more than $4 of them, each with its run.
SELECT waiting.run_id AS id, waiting.step_key, waiting.key, waiting.asked_at, waiting.called_at, waiting.asks_at, waiting.epoch,
       run.workflow_name, run.status, run.epoch AS run_epoch
FROM (
    SELECT s.run_id, s.step_key, s.key, s.asked_at, s.called_at, s.asks_at, s.epoch
    FROM {schema}.workflow_seats AS s
    WHERE s.limit_name = $1 AND (s.key, s.asked_at) > ($2, $3) AND s.epoch IS NULL
    ORDER BY s.key, s.asked_at
    LIMIT $4
) AS waiting
CROSS JOIN LATERAL (
    SELECT r.workflow_name, r.status, r.epoch FROM {schema}.workflow_runs AS r WHERE r.id = waiting.run_id LIMIT 1
) AS run
ORDER BY waiting.key, waiting.asked_at
