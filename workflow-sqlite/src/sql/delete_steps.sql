-- Called by: generation.rs, with runs whose claims have passed the fence.
-- Guarantees: what clients read of a run, its published values and its streams, stays; the rest of its history goes.
DELETE FROM step_attempts
WHERE run_id IN (SELECT value FROM json_each(?1)) AND kind NOT IN ('published', 'emitted')
