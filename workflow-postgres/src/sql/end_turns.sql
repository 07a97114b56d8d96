-- Called by: gate.rs, after a claim. $2-$5 are lanes with gates, which this transaction has locked.
-- $6 says of each how its turn has ended: 0 if more may be due, 1 if no more is due, 2 if the gate
-- is full. $7 has the times to look again at gates that may have more, if later than now.
-- Guarantees: a gate that may have more is at the end of the line, or sleeps until its time. One
-- that has no more is looked at when its next run is due or the first lease of a running one ends.
WITH ended AS MATERIALIZED (
    SELECT own.place, turn.how, turn.look_at,
           (SELECT r.available_at FROM {schema}.workflow_runs AS r
            WHERE r.lane_id = lane.id AND r.status = 'running' AND r.paused_at IS NULL
            ORDER BY r.available_at, r.id
            LIMIT 1) AS lease_end,
           CASE WHEN turn.how = 1 THEN (
               SELECT min(waiting.available_at)
               FROM (SELECT unnest({ranks}) AS number) AS rank
               CROSS JOIN LATERAL (
                   SELECT r.available_at
                   FROM {schema}.workflow_runs AS r
                   WHERE r.lane_id = lane.id AND r.rank = rank.number AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
                   ORDER BY r.available_at, r.id
                   LIMIT 1
               ) AS waiting
           ) END AS next_due
    FROM (
        SELECT unnest($2::text[]) AS queue, unnest($3::text[]) AS workflow, unnest($4::text[]) AS version,
               unnest($5::text[]) AS gate, unnest($6::smallint[]) AS how, unnest($7::bigint[]) AS look_at
    ) AS turn
    CROSS JOIN LATERAL (
        SELECT l.id FROM {schema}.workflow_lanes AS l
        WHERE l.queue = turn.queue AND l.workflow_name = turn.workflow AND l.version = turn.version AND l.gate = turn.gate
        LIMIT 1
    ) AS lane
    CROSS JOIN LATERAL (
        SELECT t.ctid AS place FROM {schema}.workflow_turns AS t WHERE t.lane_id = lane.id FOR NO KEY UPDATE
    ) AS own
)
UPDATE {schema}.workflow_turns AS t
SET open_at = CASE WHEN ended.how = 1
              THEN GREATEST({now}, LEAST(COALESCE(ended.next_due, {far_future}), COALESCE(ended.lease_end, {far_future})))
              ELSE LEAST(COALESCE(ended.look_at, {now}), COALESCE(ended.lease_end, {far_future})) END,
    full_until = CASE WHEN ended.how = 2 THEN COALESCE(ended.lease_end, {far_future}) END
FROM ended
WHERE t.ctid = ended.place
