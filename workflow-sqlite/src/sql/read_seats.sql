-- Called by: seat.rs. ?1 is the limit, ?2 the key, ?3 the largest number of waiting steps, ?4 the
-- time before which a call was too long ago, ?5 the steps that ask now.
-- Guarantees: all steps of the line that have taken a seat, and the first that wait and may be
-- called. A parked run of a paused queue cannot go on, so its steps may not. A step that asks
-- long after its call counts as not called. The order of the tables makes it search the line, and
-- not the runs.
SELECT s.run_id, s.step_key, s.asked_at, s.called_at, s.asks_at, s.epoch, r.epoch AS run_epoch, r.status
FROM workflow_seats AS s CROSS JOIN workflow_runs AS r ON r.id = s.run_id
WHERE s.limit_name = ?1 AND s.key = ?2 AND s.epoch IS NOT NULL
UNION ALL
SELECT * FROM (
    SELECT s.run_id, s.step_key, s.asked_at, CASE WHEN s.called_at > ?4 THEN s.called_at END AS called_at, s.asks_at,
           s.epoch, r.epoch AS run_epoch, r.status
    FROM workflow_seats AS s CROSS JOIN workflow_runs AS r ON r.id = s.run_id
    WHERE s.limit_name = ?1 AND s.key = ?2 AND s.epoch IS NULL
      AND (s.called_at IS NULL OR s.called_at > ?4
           OR (s.run_id, s.step_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?5)))
      AND r.paused_at IS NULL AND (r.status = 'running' OR r.status = 'parked' AND (
          SELECT q.paused_at FROM workflow_queues AS q
          WHERE q.queue = (SELECT l.queue FROM workflow_lanes AS l WHERE l.id = r.lane_id)
      ) IS NULL)
    ORDER BY s.asked_at
    LIMIT +?3
)
