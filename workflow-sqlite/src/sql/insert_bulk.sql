-- Called by: bulk.rs, with an operation that lock_bulks.sql has not found. ?1 is the row, as JSON.
-- Guarantees: the operation exists.
INSERT INTO workflow_bulk (
    id, verb, query, action, payload, actor, reason, upto, matched, cursor, done, skipped, failed, failures, status,
    available_at, worker_id, epoch, created_at, ended_at
)
SELECT ?1 ->> 0, ?1 ->> 1, ?1 ->> 2, ?1 ->> 3, ?1 ->> 4, ?1 ->> 5, ?1 ->> 6, ?1 ->> 7, ?1 ->> 8, ?1 ->> 7, 0, 0, 0, '[]',
       'running', ?2, NULL, 0, ?2, NULL
