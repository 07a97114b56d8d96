-- Called by: generation.rs, with runs whose claims have passed the fence.
-- Guarantees: what clients read of a run, its published values and its streams, stays; the rest of its history goes.
DELETE FROM {schema}.step_attempts AS a
WHERE a.run_id = ANY ($1::uuid[]) AND a.kind NOT IN ('published', 'emitted')
