-- Called by: parts.rs, before start_runs.sql. $1-$4 are the lanes of its runs: queues, workflows,
-- versions, and gates, which are empty for runs behind no gate.
-- Guarantees: `laned` has one row with the numbers of these lanes, in their order; NULL for a lane
-- that has no row. If `laned` is false, the parts that follow change nothing.
laned AS MATERIALIZED (
    SELECT ARRAY(
        SELECT (SELECT l.id FROM {schema}.workflow_lanes AS l
                WHERE l.queue = lane.queue AND l.workflow_name = lane.workflow AND l.version = lane.version AND l.gate = lane.gate)
        FROM (SELECT unnest($1::text[]) AS queue, unnest($2::text[]) AS workflow, unnest($3::text[]) AS version,
                     unnest($4::text[]) AS gate) AS lane
    ) AS ids
)
-- Answers
(SELECT array_position(laned.ids, NULL) IS NULL FROM laned) AS laned
