-- Called by: KbStore::list.
-- Guarantees: returns the documents of one base, or of all, after a base and key, in this order,
-- with the beginnings of their texts.
SELECT base, key, title, substr(text, 1, $5), tags, run_id, revision, written_at
FROM workflow_knowledge
WHERE (base, key) > ($2, $3) AND ($1 IS NULL OR base = $1)
ORDER BY base, key
LIMIT $4
