-- Called by: gate.rs, after lock_woken_gates.sql. $1 are the gates that it has locked.
-- Guarantees: what the wakes of these gates tell is in their turns, and the wakes are gone. The
-- snapshot is newer than the locks, so it sees each turn as the claims before have left it.
WITH woken AS MATERIALIZED (
    SELECT oldest.id, oldest.lane_id, oldest.open_at, turn.gate_id
    FROM (SELECT w.id, w.lane_id, w.open_at FROM {schema}.workflow_gate_wakes AS w ORDER BY w.id LIMIT 1000) AS oldest
    CROSS JOIN LATERAL (
        SELECT t.gate_id FROM {schema}.workflow_turns AS t WHERE t.lane_id = oldest.lane_id LIMIT 1
    ) AS turn
    WHERE turn.gate_id = ANY ($1::integer[])
), told AS (
    DELETE FROM {schema}.workflow_gate_wakes AS w WHERE w.id = ANY (ARRAY(SELECT woken.id FROM woken))
), changed AS MATERIALIZED (
    SELECT due.place, lane.open_at, false AS is_free
    FROM (
        SELECT woken.lane_id, min(woken.open_at) AS open_at FROM woken WHERE woken.open_at IS NOT NULL GROUP BY woken.lane_id
    ) AS lane
    CROSS JOIN LATERAL (
        SELECT t.ctid AS place FROM {schema}.workflow_turns AS t
        WHERE t.lane_id = lane.lane_id AND t.open_at > lane.open_at
        FOR NO KEY UPDATE
    ) AS due
    UNION ALL
    SELECT freed.place, NULL, true
    FROM (SELECT DISTINCT woken.gate_id FROM woken WHERE woken.open_at IS NULL) AS gate
    CROSS JOIN LATERAL (
        SELECT t.ctid AS place FROM {schema}.workflow_turns AS t
        WHERE t.gate_id = gate.gate_id AND t.full_until IS NOT NULL
        FOR NO KEY UPDATE
    ) AS freed
), ended AS MATERIALIZED (
    SELECT changed.place, min(changed.open_at) AS open_at, bool_or(changed.is_free) AS is_free
    FROM changed GROUP BY changed.place
)
UPDATE {schema}.workflow_turns AS t
SET open_at = LEAST(t.open_at, ended.open_at), full_until = CASE WHEN ended.is_free THEN NULL ELSE t.full_until END
FROM ended WHERE t.ctid = ended.place
