-- Called by: parts.rs instead of release_claims.sql, for a batch that parks no run and ends none
-- with an error.
-- Guarantees: see release_claims.sql.
finished AS (
    UPDATE {schema}.workflow_runs AS r
    SET status = f.status, worker_id = NULL, output = f.output, error = NULL, paused_at = NULL,
        completed_at = GREATEST({now}, r.created_at, r.started_at)
    FROM (
        SELECT unnest($1::uuid[]) AS id, unnest($2::bigint[]) AS epoch, unnest($3::text[]) AS status,
               unnest($4::text[]) AS output
    ) AS f
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = f.id LIMIT 1
    ) AS held
    WHERE {after} AND r.ctid = held.place AND r.epoch = f.epoch AND r.status LIKE 'running'
    RETURNING r.id
)
-- Answers
CASE WHEN (SELECT count(*) FROM finished) < cardinality($1)
     THEN ARRAY(SELECT finished.id FROM finished) END AS finished
