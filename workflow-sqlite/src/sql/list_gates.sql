-- Called by: count.rs. ?1 is a queue, ?2 the last gate of the page before, or NULL.
-- Guarantees: at most ?3 gates in the order of their names. Counts the runs behind each by their
-- indexes, to at most ?4.
SELECT g.gate, g.weight, g.used_until, (
    SELECT count(*) FROM (
        SELECT 1 FROM workflow_turns AS t CROSS JOIN workflow_runs AS r
        WHERE t.gate_id = g.id AND r.lane_id = t.lane_id AND r.status = 'running'
        LIMIT +?4
    )
) AS running, (
    SELECT count(*) FROM (
        SELECT 1 FROM workflow_turns AS t CROSS JOIN workflow_runs AS r
        WHERE t.gate_id = g.id
          AND r.lane_id = t.lane_id AND r.rank > 0 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        LIMIT +?4
    )
) AS waiting
FROM workflow_gates AS g
WHERE g.queue = ?1 AND g.gate > coalesce(?2, '')
ORDER BY g.gate
LIMIT +?3
