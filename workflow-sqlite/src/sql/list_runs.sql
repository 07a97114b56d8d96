-- Called by: read.rs. A parameter that is NULL does not filter. Ids begin with a hexadecimal digit,
-- so every id is < 'g'.
-- Guarantees: the newest run comes first. A page begins right after the run ?1, by the primary key,
-- however deep the page lies.
SELECT r.id, r.workflow_name, l.version, l.queue, l.gate, r.status, r.input, r.output, r.error, r.key, r.available_at, r.rank, r.worker_id, r.epoch,
    r.wakes, r.crashes, r.lone_crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.parent_step_key, r.on_parent_end,
    r.deadline_at, r.cancel_requested_at, r.paused_at, r.created_at, r.started_at, r.completed_at, r.tags,
    r.single_key, r.single_until
FROM workflow_runs AS r LEFT JOIN workflow_lanes AS l ON l.id = r.lane_id
WHERE r.id < coalesce(?1, 'g')
  AND (?2 IS NULL OR r.status IN (SELECT value FROM json_each(?2)))
  AND (?3 IS NULL OR r.workflow_name = ?3)
  AND (?4 IS NULL OR l.queue = ?4)
  AND (?5 IS NULL OR EXISTS (SELECT 1 FROM json_each(r.tags) AS t WHERE t.key = ?5 AND t.value = ?6))
  AND (?7 IS NULL OR substr(r.key, 1, length(?7)) = ?7)
  AND (?8 IS NULL OR r.created_at >= ?8)
  AND (?9 IS NULL OR r.created_at < ?9)
  AND (?12 IS NULL OR r.parent_run_id = ?12)
  AND (?11 IS NULL OR (r.paused_at IS NOT NULL) = ?11)
ORDER BY r.id DESC
LIMIT +?10
