-- Called by: wait.rs. $2-$5 are a lane and its gate, which is empty for none, $6 is the time in
-- whose order a run is claimed, $7 its id, and $8 a number.
-- Guarantees: counts the due runs of the lane that are claimed before the run, by the index of due
-- runs and to at most the number.
SELECT count(*) AS before
FROM (
    SELECT 1
    FROM (
        SELECT l.id FROM {schema}.workflow_lanes AS l
        WHERE l.queue = $2 AND l.workflow_name = $3 AND l.version = $4 AND l.gate = $5
        OFFSET 0
    ) AS lane
    CROSS JOIN (SELECT unnest({ranks}) AS number, unnest({head_starts}) AS head_start) AS rank
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM {schema}.workflow_runs AS r
        WHERE r.lane_id = lane.id AND r.rank = rank.number AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
          AND r.available_at <= {now} AND (r.available_at, r.id) < ($6::bigint + rank.head_start, $7::uuid)
        ORDER BY r.available_at, r.id
        LIMIT $8
    ) AS waiting
    LIMIT $8
) AS counted
