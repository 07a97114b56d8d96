-- Called by: KbStore::search.
-- Guarantees: returns the documents of one base, or of all, that fit a query and have these tags,
-- those that fit best first.
SELECT d.base, d.key, d.title, d.text, d.tags, d.run_id, d.revision, d.written_at
FROM workflow_knowledge_words JOIN workflow_knowledge AS d ON d.id = workflow_knowledge_words.rowid
WHERE workflow_knowledge_words MATCH $1
  AND ($2 IS NULL OR d.base = $2)
  AND NOT EXISTS (
      SELECT 1 FROM json_each($3) AS wanted
      WHERE wanted.value NOT IN (SELECT value FROM json_each(d.tags))
  )
ORDER BY bm25(workflow_knowledge_words, 10.0, 1.0), d.written_at DESC, d.base, d.key
LIMIT $4
