-- Called by: bulk.rs, with an operation that lock_bulks.sql has not found.
-- Guarantees: the operation exists. One that another transaction has inserted meanwhile stays as it
-- is.
INSERT INTO {schema}.workflow_bulk (
    id, verb, query, action, payload, actor, reason, upto, matched, cursor, done, skipped, failed, failures, status,
    available_at, worker_id, epoch, created_at, ended_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $8, 0, 0, 0, '[]', 'running', $10, NULL, 0, $10, NULL)
ON CONFLICT (id) DO NOTHING
