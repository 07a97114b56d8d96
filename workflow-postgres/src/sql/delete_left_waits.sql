-- Called by: event.rs, with waits that end without their event.
-- Guarantees: no emission finds these waits.
DELETE FROM {schema}.workflow_event_waits AS w
USING (SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key) AS e
WHERE w.run_id = e.run_id AND w.step_key = e.step_key
