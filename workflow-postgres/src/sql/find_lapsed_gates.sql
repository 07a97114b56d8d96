-- Called by: gate.rs, for the gates of full queues. $2-$4 are lanes, $5 is the largest number.
-- Guarantees: the gates of these lanes behind which the lease of a run has ended. Reads the index
-- of running runs, so what waits behind the gates costs nothing.
SELECT DISTINCT lane.queue, lane.workflow_name, lane.version, lane.gate
FROM (
    SELECT r.lane_id FROM {schema}.workflow_runs AS r
    WHERE r.lane_id < 0 AND r.status = 'running' AND r.available_at <= {now} AND r.paused_at IS NULL
    OFFSET 0
) AS lapsed
CROSS JOIN LATERAL (
    SELECT t.base_id FROM {schema}.workflow_turns AS t WHERE t.lane_id = lapsed.lane_id LIMIT 1
) AS turn
CROSS JOIN LATERAL (
    SELECT l.queue, l.workflow_name, l.version, l.gate FROM {schema}.workflow_lanes AS l WHERE l.id = lapsed.lane_id LIMIT 1
) AS lane
WHERE turn.base_id = ANY (ARRAY(
    SELECT base.id
    FROM unnest($2::text[], $3::text[], $4::text[]) AS named(queue, workflow, version)
    CROSS JOIN LATERAL (
        SELECT l.id FROM {schema}.workflow_lanes AS l
        WHERE l.queue = named.queue AND l.workflow_name = named.workflow AND l.version = named.version AND l.gate = ''
        LIMIT 1
    ) AS base
))
LIMIT $5
