-- Called by: generation.rs, with runs whose claims have passed the fence.
-- Guarantees: signals that wait stay; of those that were received, the ones whose key tells a repetition. A key that begins
-- with the character 1 was made for one sending only.
DELETE FROM workflow_signals
WHERE run_id IN (SELECT value FROM json_each(?1)) AND consumed_by IS NOT NULL AND (key IS NULL OR substr(key, 1, 1) = char(1))
