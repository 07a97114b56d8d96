-- Called by: scan.rs, before a source (parts/) in an order of its ids and list_runs_rest.sql.
-- Guarantees: reads at most ?3 rows of the source. Reads no payload, and no error above 8 KiB.
SELECT r.id, r.workflow_name, l.version, l.queue, l.gate, r.status, '' AS input, NULL AS output,
    CASE WHEN octet_length(r.error) <= 8192 THEN r.error END AS error,
    coalesce(octet_length(r.error) > 8192, false) AS is_error_long,
    r.key, r.available_at, r.rank, r.worker_id, r.epoch, r.wakes, r.crashes, r.lone_crashes, r.attempt, r.generation, r.depth,
    r.parent_run_id, r.parent_step_key, r.on_parent_end, r.deadline_at, r.cancel_requested_at, r.paused_at, r.created_at,
    r.started_at, r.completed_at, r.tags, r.single_key, r.single_until, r.trace
FROM (
