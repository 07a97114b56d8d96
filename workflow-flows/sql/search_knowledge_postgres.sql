-- Called by: KbStore::search.
-- Guarantees: returns the documents of one base, or of all, that fit a query and have these tags,
-- those that fit best first.
SELECT base, key, title, text, tags::text, run_id, revision, written_at
FROM workflow_knowledge
WHERE words @@ $1::tsquery AND ($2::text IS NULL OR base = $2) AND tags @> $3::jsonb
ORDER BY ts_rank(words, $1::tsquery) DESC, written_at DESC, base, key
LIMIT $4
