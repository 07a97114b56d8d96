-- Called by: parts.rs, within claim_runs.sql, whose parameters and lanes it has, unless the claim
-- resumes from a cursor.
-- Guarantees: `lapsed` has runs of these lanes whose lease has ended, the longest due first, at
-- most $4 of each lane. A run is passed over while its worker commits a batch, and the row of that
-- worker gets another version (ownership.rs). Skips runs that another transaction holds.
lapsed AS MATERIALIZED (
    SELECT run.place, run.id, run.available_at, run.holder, lane.number AS lane
    FROM lane
    CROSS JOIN LATERAL (
        SELECT r.ctid AS place, r.id, r.available_at, r.worker_id AS holder
        FROM {schema}.workflow_runs AS r
        WHERE r.lane_id = lane.id
          AND r.status = 'running' AND r.paused_at IS NULL AND r.available_at <= {now}
          AND (r.worker_id IS NULL
               OR (SELECT w.id FROM {schema}.workflow_workers AS w WHERE w.id = r.worker_id) IS NULL
               OR (SELECT true FROM {schema}.workflow_workers AS w WHERE w.id = r.worker_id FOR UPDATE SKIP LOCKED))
        ORDER BY r.available_at, r.id
        LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS run
    WHERE {after}
), taken AS (
    UPDATE {schema}.workflow_workers AS w SET started_at = w.started_at
    WHERE w.id = ANY (ARRAY(SELECT lapsed.holder FROM lapsed WHERE lapsed.holder IS NOT NULL))
)
