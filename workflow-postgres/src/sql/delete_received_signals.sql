-- Called by: continue_as_new.rs, with runs whose claims have passed the fence.
-- Guarantees: waiting signals stay, and so do received ones whose key recognizes a repetition. A
-- key that begins with the character 1 belongs to one sending only.
DELETE FROM {schema}.workflow_signals AS s
WHERE s.run_id = ANY ($1::uuid[]) AND s.consumed_by IS NOT NULL AND (s.key IS NULL OR left(s.key, 1) = chr(1))
