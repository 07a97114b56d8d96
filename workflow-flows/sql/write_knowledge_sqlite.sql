-- Called by: KbStore::write, KbStore::put; index_knowledge_sqlite follows in the same transaction.
-- Guarantees: the document of this key is this one. Returns its id and how often it was written.
INSERT INTO workflow_knowledge AS old (base, key, title, text, tags, run_id, revision, written_at)
VALUES ($1, $2, $3, $4, $5, $6, 1, $7)
ON CONFLICT (base, key) DO UPDATE
SET title = excluded.title, text = excluded.text, tags = excluded.tags, run_id = excluded.run_id,
    revision = old.revision + 1, written_at = excluded.written_at
RETURNING id, revision
