-- Called by: count.rs. $1 is a queue, $2 the last gate of the page before, or NULL.
-- Guarantees: at most $3 gates in the order of their names. Counts the runs behind each by their
-- indexes, to at most $4.
SELECT g.gate, g.weight, g.used_until, (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM (SELECT t.lane_id FROM {schema}.workflow_turns AS t WHERE t.gate_id = g.id OFFSET 0) AS behind
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.workflow_runs AS r WHERE r.lane_id = behind.lane_id AND r.status = 'running' LIMIT $4
        ) AS running
        LIMIT $4
    ) AS counted
) AS running, (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM (SELECT t.lane_id FROM {schema}.workflow_turns AS t WHERE t.gate_id = g.id OFFSET 0) AS behind
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.workflow_runs AS r
            WHERE r.lane_id = behind.lane_id AND r.rank > 0 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
            ORDER BY r.rank, r.available_at, r.id
            LIMIT $4
        ) AS waiting
        LIMIT $4
    ) AS counted
) AS waiting
FROM (
    SELECT * FROM {schema}.workflow_gates AS k
    WHERE k.queue = $1 AND k.gate > coalesce($2::text, '')
    ORDER BY k.gate
    LIMIT $3
) AS g
ORDER BY g.gate
