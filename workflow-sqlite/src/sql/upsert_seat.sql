-- Called by: seat.rs, with a step that asks for a seat. ?5 is the time, ?6 the epoch that takes the
-- seat, or NULL if the step waits, ?7 when it asks again by itself.
-- Guarantees: a step that asks again in its line keeps its place. Another one comes after all of
-- the line, even if the clock is set back.
INSERT INTO workflow_seats (run_id, step_key, limit_name, key, asked_at, epoch, asks_at)
SELECT ?1, ?2, ?3, ?4,
       max(?5,
           1 + ifnull((SELECT max(s.asked_at) FROM workflow_seats AS s WHERE s.limit_name = ?3 AND s.key = ?4 AND s.epoch IS NULL), 0),
           1 + ifnull((SELECT max(s.asked_at) FROM workflow_seats AS s WHERE s.limit_name = ?3 AND s.key = ?4 AND s.epoch IS NOT NULL), 0)),
       ?6, ?7
WHERE true
ON CONFLICT (run_id, step_key) DO UPDATE SET
    asked_at = CASE WHEN limit_name = excluded.limit_name AND key = excluded.key THEN asked_at ELSE excluded.asked_at END,
    limit_name = excluded.limit_name, key = excluded.key, called_at = NULL, epoch = excluded.epoch,
    asks_at = excluded.asks_at
