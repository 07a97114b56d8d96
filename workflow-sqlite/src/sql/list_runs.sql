-- Called by: read.rs. A parameter that is NULL does not filter. Ids begin with a hexadecimal digit,
-- so every id is < 'g'.
-- Guarantees: the newest run comes first. A page begins right after the run ?1, by the primary key,
-- however deep the page lies.
SELECT id, workflow_name, version, queue, status, input, output, error, key, available_at, worker_id, epoch, wakes,
    crashes, lone_crashes, attempt, generation, depth, parent_run_id, parent_step_key, on_parent_end, deadline_at, cancel_requested_at,
    paused_at, created_at, started_at, completed_at, tags
FROM workflow_runs
WHERE id < coalesce(?1, 'g')
  AND (?2 IS NULL OR status IN (SELECT value FROM json_each(?2)))
  AND (?3 IS NULL OR workflow_name = ?3)
  AND (?4 IS NULL OR queue = ?4)
  AND (?5 IS NULL OR EXISTS (SELECT 1 FROM json_each(tags) AS t WHERE t.key = ?5 AND t.value = ?6))
  AND (?7 IS NULL OR substr(key, 1, length(?7)) = ?7)
  AND (?8 IS NULL OR created_at >= ?8)
  AND (?9 IS NULL OR created_at < ?9)
  AND (?12 IS NULL OR parent_run_id = ?12)
  AND (?11 IS NULL OR (paused_at IS NOT NULL) = ?11)
ORDER BY id DESC
LIMIT +?10
