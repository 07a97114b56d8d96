-- Called by: read.rs. A parameter that is NULL matches every run.
-- Guarantees: newest first. A page begins right after the run $9, by the primary key, at any depth.
SELECT r.id, r.workflow_name, l.version, l.queue, l.gate, r.status, r.input, r.output, r.error, r.key, r.available_at, r.rank, r.worker_id,
       r.epoch, r.wakes, r.crashes, r.lone_crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.parent_step_key, r.on_parent_end,
       r.deadline_at, r.cancel_requested_at, r.paused_at, r.created_at, r.started_at, r.completed_at, r.tags,
       r.single_key, r.single_until
FROM {schema}.workflow_runs AS r
LEFT JOIN LATERAL (
    SELECT lane.queue, lane.version, lane.gate FROM {schema}.workflow_lanes AS lane WHERE lane.id = r.lane_id LIMIT 1
) AS l ON true
WHERE ($1::text[] IS NULL OR r.status = ANY ($1))
  AND ($2::text IS NULL OR r.workflow_name = $2)
  AND ($3::text IS NULL
       OR r.lane_id = ANY (ARRAY(SELECT lane.id FROM {schema}.workflow_lanes AS lane WHERE lane.queue = $3)))
  AND ($4::text IS NULL OR (r.tags::jsonb ->> $4) = $5::text)
  AND ($6::text IS NULL OR starts_with(r.key, $6))
  AND ($7::bigint IS NULL OR r.created_at >= $7)
  AND ($8::bigint IS NULL OR r.created_at < $8)
  AND ($9::uuid IS NULL OR r.id < $9)
  AND ($12::uuid IS NULL OR r.parent_run_id = $12)
  AND ($11::boolean IS NULL OR (r.paused_at IS NOT NULL) = $11)
ORDER BY r.id DESC
LIMIT $10
