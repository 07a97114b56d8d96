-- Called by: workers.rs. ?1 holds pairs of queue and workflow, ?2 is the time.
-- Guarantees: reads at most one entry of the index of due runs for each rank of each version of
-- these workflows, and one of the index of running runs for each version, however many runs it has,
-- and the gates at which it is time to look.
SELECT l.queue, l.workflow_name, l.version
FROM (SELECT DISTINCT value ->> 0 AS queue, value ->> 1 AS workflow FROM json_each(?1)) AS known
CROSS JOIN workflow_lanes AS l
WHERE l.queue = known.queue AND l.workflow_name = known.workflow AND l.gate = '' AND (EXISTS (
    SELECT 1
    FROM (SELECT 0 AS rank UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS known
    CROSS JOIN workflow_runs AS r
    WHERE r.lane_id = l.id AND r.rank = known.rank AND r.available_at <= ?2 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
) OR EXISTS (
    SELECT 1 FROM workflow_runs AS r
    WHERE r.lane_id = l.id AND r.available_at <= ?2 AND r.status = 'running' AND r.paused_at IS NULL
) OR EXISTS (
    SELECT 1 FROM workflow_turns AS t CROSS JOIN workflow_runs AS r
    WHERE t.base_id = l.id AND t.full_until IS NULL AND t.open_at <= ?2
      AND r.lane_id = t.lane_id AND r.rank >= 0 AND r.available_at <= ?2 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
))
