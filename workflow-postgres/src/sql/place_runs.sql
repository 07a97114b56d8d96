-- Called by: placement.rs, with runs that lock_runs.sql has locked and that no worker holds.
-- Guarantees: each run waits in this lane with this rank, and is due when it was. The time is set
-- because a trigger looks for it: claims then look at the new gate. A run whose new lane has no row
-- is left as it is. Returns the changed runs.
WITH held AS MATERIALIZED (
    SELECT own.place, own.available_at, l.id AS lane_id, s.rank
    FROM (
        SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS queue, unnest($3::text[]) AS workflow,
               unnest($4::text[]) AS version, unnest($5::text[]) AS gate, unnest($6::smallint[]) AS rank
    ) AS s
    CROSS JOIN LATERAL (
        SELECT lane.id FROM {schema}.workflow_lanes AS lane
        WHERE lane.queue = s.queue AND lane.workflow_name = s.workflow AND lane.version = s.version AND lane.gate = s.gate
        LIMIT 1
    ) AS l
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place, o.available_at FROM {schema}.workflow_runs AS o
        WHERE o.id = s.id AND o.status IN ('pending', 'parked')
        FOR NO KEY UPDATE
    ) AS own
)
UPDATE {schema}.workflow_runs AS r
SET lane_id = held.lane_id, rank = held.rank, available_at = held.available_at
FROM held WHERE r.ctid = held.place
RETURNING r.id
