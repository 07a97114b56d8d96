-- Called by: system.rs. ?1 is the time, ?2 the number of turns to look at.
-- Guarantees: the gates at which no claim looks for another minute, although a run behind them has
-- been due for a minute, and no used-up rate, full gate or paused queue explains it. Reads at most
-- ?2 turns and, for each, one entry of the index of due runs per rank.
SELECT late.queue, late.gate, min(late.at) AS due_since
FROM (
    SELECT g.queue, g.gate, (
        SELECT r.available_at FROM workflow_runs AS r
        WHERE r.lane_id = t.lane_id AND r.rank = known.rank AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        ORDER BY r.available_at
        LIMIT 1
    ) AS at
    FROM (SELECT lane_id, gate_id, open_at, full_until FROM workflow_turns ORDER BY lane_id DESC LIMIT +?2) AS t
    CROSS JOIN workflow_gates AS g
    CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS known
    WHERE g.id = t.gate_id AND t.full_until IS NULL AND t.open_at > ?1 + 60000000 AND g.used_until <= ?1
      AND NOT EXISTS (
          SELECT 1 FROM workflow_queues AS q
          WHERE q.queue = g.queue AND (q.used_until > ?1 OR q.paused_at IS NOT NULL)
      )
) AS late
WHERE late.at <= ?1 - 60000000
GROUP BY late.queue, late.gate
ORDER BY due_since, late.queue, late.gate
LIMIT 20
