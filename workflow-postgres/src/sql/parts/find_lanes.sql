-- Called by: parts.rs, before start_runs.sql. $1-$4 are the lanes of its runs: queues, workflows,
-- versions, and gates, which are empty for runs behind no gate. $5 says whether the runs ask for
-- room: they may only start here if no queue of theirs bounds how many runs wait.
-- Guarantees: `laned` has one row with the numbers of these lanes, in their order; NULL for a lane
-- that has no row, or in place of all lanes if a run must ask for room elsewhere. If `laned` is
-- false, the parts that follow change nothing.
laned AS MATERIALIZED (
    SELECT CASE
        WHEN $5::boolean AND EXISTS (
            SELECT FROM {schema}.workflow_queues AS q
            WHERE q.queue = ANY ($1::text[]) AND strpos(COALESCE(q.overridden, q.declared), '"max_waiting"') > 0
        ) THEN ARRAY[NULL::integer]
        ELSE ARRAY(
            SELECT (SELECT l.id FROM {schema}.workflow_lanes AS l
                    WHERE l.queue = lane.queue AND l.workflow_name = lane.workflow AND l.version = lane.version AND l.gate = lane.gate)
            FROM (SELECT unnest($1::text[]) AS queue, unnest($2::text[]) AS workflow, unnest($3::text[]) AS version,
                         unnest($4::text[]) AS gate) AS lane
        )
    END AS ids
)
-- Answers
(SELECT array_position(laned.ids, NULL) IS NULL FROM laned) AS laned
