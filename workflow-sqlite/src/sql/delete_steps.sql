-- Called by: continue_as_new.rs, with runs whose claims have passed the fence.
-- Guarantees: the published values and streams of a run stay, because clients read them. The rest
-- of its history is deleted.
DELETE FROM step_attempts
WHERE run_id IN (SELECT value FROM json_each(?1)) AND kind NOT IN ('published', 'emitted')
