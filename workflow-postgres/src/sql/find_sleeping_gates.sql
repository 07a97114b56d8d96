-- Called by: system.rs. $2 is the number of turns to look at.
-- Guarantees: the gates at which no claim looks for another minute, although a run behind them has
-- been due for a minute, and no used-up rate, full gate, paused queue or wake that waits for a
-- claim explains it. Reads at most $2 turns and, for each, one entry of the index of due runs per
-- rank.
-- With more than 20,000 wakes it is not known, and the answer is empty.
SELECT gate.queue, gate.gate, min(late.available_at) AS due_since
FROM (
    SELECT t.lane_id, t.gate_id, t.open_at, t.full_until
    FROM {schema}.workflow_turns AS t
    ORDER BY t.lane_id DESC
    LIMIT $2
) AS turn
CROSS JOIN LATERAL (
    SELECT g.queue, g.gate FROM {schema}.workflow_gates AS g
    WHERE g.id = turn.gate_id AND g.used_until <= {now}
    LIMIT 1
) AS gate
CROSS JOIN (SELECT unnest({ranks}) AS number) AS rank
CROSS JOIN LATERAL (
    SELECT r.available_at
    FROM {schema}.workflow_runs AS r
    WHERE r.lane_id = turn.lane_id AND r.rank = rank.number AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
    ORDER BY r.available_at, r.id
    LIMIT 1
) AS late
WHERE turn.full_until IS NULL AND turn.open_at > {now} + 60000000 AND late.available_at <= {now} - 60000000
  AND (SELECT count(*) FROM (SELECT FROM {schema}.workflow_gate_wakes AS w LIMIT 20001) AS counted) <= 20000
  AND NOT EXISTS (SELECT FROM {schema}.workflow_gate_wakes AS w WHERE w.lane_id = turn.lane_id)
  AND NOT EXISTS (
      SELECT FROM {schema}.workflow_queues AS q
      WHERE q.queue = gate.queue AND (q.used_until > {now} OR q.paused_at IS NOT NULL)
  )
GROUP BY gate.queue, gate.gate
ORDER BY due_since, gate.queue, gate.gate
LIMIT 20
