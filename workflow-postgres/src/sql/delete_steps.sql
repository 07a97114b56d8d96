-- Called by: continue_as_new.rs, with runs whose claims have passed the fence.
-- Guarantees: the published values and streams of a run stay, because clients read them. The rest
-- of its history is deleted.
DELETE FROM {schema}.step_attempts AS a
WHERE a.run_id = ANY ($1::uuid[]) AND a.kind NOT IN ('published', 'emitted')
