-- Called by: audit.rs, at the end of a batch.
-- Guarantees: one row per order, however often it is committed.
INSERT INTO workflow_audit (id, at, actor, verb, target, reason, arguments, outcome)
SELECT value ->> 0, ?2, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM jsonb_each(?1)
WHERE true
ON CONFLICT (id) DO NOTHING
