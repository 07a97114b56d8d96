-- Called by: gate.rs, for the gates of full queues. ?1 holds lanes, ?2 is the time, ?3 the largest
-- number.
-- Guarantees: the gates of these lanes behind which the lease of a run has ended. Reads the index
-- of running runs, so what waits behind the gates costs nothing.
SELECT DISTINCT l.queue, l.workflow_name, l.version, l.gate
FROM workflow_runs AS r CROSS JOIN workflow_lanes AS l
WHERE r.status = 'running' AND r.lane_id < 0 AND r.available_at <= ?2 AND r.paused_at IS NULL
  AND l.id = r.lane_id
  AND EXISTS (
      SELECT 1 FROM json_each(?1) AS asked
      WHERE l.queue = asked.value ->> 0 AND l.workflow_name = asked.value ->> 1 AND l.version = asked.value ->> 2
  )
LIMIT +?3
