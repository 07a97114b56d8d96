-- Called by: gate.rs, after a claim. $1-$4 are lanes with gates, which this transaction has locked.
-- $5 says of each how its turn has ended (0 if more may be due, 1 if no more is due, 2 if the gate
-- is full), $6 the time to look again, $7 how many runs the gate has given in the turn that goes
-- on.
-- Guarantees: claims look at each gate again at its time, or when the first lease of a running run
-- ends. At one that has no more: when its next run is due. At a full one: when a slot is free.
WITH ended AS MATERIALIZED (
    SELECT own.place, turn.how, turn.look_at, turn.given,
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
        SELECT unnest($1::text[]) AS queue, unnest($2::text[]) AS workflow, unnest($3::text[]) AS version,
               unnest($4::text[]) AS gate, unnest($5::smallint[]) AS how, unnest($6::bigint[]) AS look_at,
               unnest($7::bigint[]) AS given
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
              THEN GREATEST(ended.look_at, LEAST(COALESCE(ended.next_due, {far_future}), COALESCE(ended.lease_end, {far_future})))
              ELSE LEAST(ended.look_at, COALESCE(ended.lease_end, {far_future})) END,
    full_until = CASE WHEN ended.how = 2 THEN COALESCE(ended.lease_end, {far_future}) END,
    given = ended.given
FROM ended
WHERE t.ctid = ended.place
