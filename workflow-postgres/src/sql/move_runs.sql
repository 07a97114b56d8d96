-- Called by: single.rs, with runs that the fence has locked and that have not begun. $13 is the
-- longest time from the creation of a run to its start.
-- Guarantees: each run is as if it had been started now with these values, except its id, its
-- creation and its single key. A run whose new lane has no row is left as it is. Returns the moved
-- runs.
WITH held AS MATERIALIZED (
    SELECT own.place, l.id AS lane_id, s.rank, s.input, s.tags, t.deadline,
           LEAST(t.start, own.created_at + s.max_wait, t.deadline) AS available_at
    FROM (
        SELECT unnest($2::uuid[]) AS id, unnest($3::text[]) AS queue, unnest($4::text[]) AS workflow,
               unnest($5::text[]) AS version, unnest($6::smallint[]) AS rank, unnest($7::text[]) AS input,
               unnest($8::text[]) AS tags, unnest($9::bigint[]) AS start_at, unnest($10::bigint[]) AS start_delay,
               unnest($11::bigint[]) AS deadline_at, unnest($12::bigint[]) AS deadline_delay, unnest($13::bigint[]) AS max_wait,
               unnest($14::text[]) AS gate
    ) AS s
    CROSS JOIN LATERAL (
        SELECT lane.id FROM {schema}.workflow_lanes AS lane
        WHERE lane.queue = s.queue AND lane.workflow_name = s.workflow AND lane.version = s.version AND lane.gate = s.gate
        LIMIT 1
    ) AS l
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place, o.created_at FROM {schema}.workflow_runs AS o
        WHERE o.id = s.id AND o.status = 'pending' AND o.epoch = 0
        FOR NO KEY UPDATE
    ) AS own
    CROSS JOIN LATERAL (
        SELECT CASE WHEN s.start_delay IS NULL THEN s.start_at
                    ELSE LEAST({now} + s.start_delay, {far_future}) END AS start,
               CASE WHEN s.deadline_delay IS NULL THEN s.deadline_at
                    ELSE LEAST({now} + s.deadline_delay, {far_future}) END AS deadline
    ) AS t
)
UPDATE {schema}.workflow_runs AS r
SET lane_id = held.lane_id, rank = held.rank, input = held.input, tags = held.tags, deadline_at = held.deadline,
    available_at = held.available_at
FROM held WHERE r.ctid = held.place
RETURNING r.id
