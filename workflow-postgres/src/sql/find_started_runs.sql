-- Called by: start.rs, for starts that inserted nothing. It is a statement of its own, because its
-- snapshot sees the runs that they met.
-- Guarantees: returns (index in the list, run), found by the run's id or by (workflow, key),
-- through indexes only.
SELECT s.place, r.id, r.input, r.generation
FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS s(id, workflow, key, place)
CROSS JOIN LATERAL (
    SELECT own.id, own.input, own.generation FROM {schema}.workflow_runs AS own WHERE own.id = s.id
    UNION ALL
    SELECT kept.id, kept.input, kept.generation FROM {schema}.workflow_runs AS kept
    WHERE kept.workflow_name = s.workflow AND kept.key = s.key
) AS r
