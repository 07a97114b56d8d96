-- Called by: generation.rs, with runs whose claims have passed the fence.
-- Guarantees: signals that wait stay; of those that were received, the ones whose key tells a repetition. A key that begins
-- with the character 1 was made for one sending only.
DELETE FROM {schema}.workflow_signals AS s
WHERE s.run_id = ANY ($1::uuid[]) AND s.consumed_by IS NOT NULL AND (s.key IS NULL OR left(s.key, 1) = chr(1))
