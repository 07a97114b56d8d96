-- Called by: continue_as_new.rs, with runs whose claims have passed the fence.
-- Guarantees: waiting signals stay, and so do received ones whose key recognizes a repetition. A
-- key that begins with the character 1 belongs to one sending only.
DELETE FROM workflow_signals
WHERE run_id IN (SELECT value FROM json_each(?1)) AND consumed_by IS NOT NULL AND (key IS NULL OR substr(key, 1, 1) = char(1))
