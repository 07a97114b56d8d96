-- Called by: generation.rs, with runs whose claims have passed the fence.
-- Guarantees: signals that wait stay; of those that were received, the ones whose key tells a repetition.
DELETE FROM workflow_signals
WHERE run_id IN (SELECT value FROM json_each(?1)) AND consumed_by IS NOT NULL AND key IS NULL
