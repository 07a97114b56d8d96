-- Called by: start.rs, for the starts that inserted nothing; a statement of its own, for its snapshot sees what they met.
-- Guarantees: answers by (place in the list, run), found by its own id or by (workflow, key), by index only.
SELECT s.place, r.id, r.input, r.generation
FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS s(id, workflow, key, place)
CROSS JOIN LATERAL (
    SELECT own.id, own.input, own.generation FROM {schema}.workflow_runs AS own WHERE own.id = s.id
    UNION ALL
    SELECT kept.id, kept.input, kept.generation FROM {schema}.workflow_runs AS kept
    WHERE kept.workflow_name = s.workflow AND kept.key = s.key
) AS r
