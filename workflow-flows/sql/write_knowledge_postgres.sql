-- Called by: KbStore::write, KbStore::put.
-- Guarantees: the document of this key is this one, with its words. Returns how often it was
-- written.
INSERT INTO {schema}.workflow_knowledge AS old (base, key, title, text, tags, run_id, revision, written_at, words)
VALUES ($1, $2, $3, $4, $5::jsonb, $6, 1, $7, $8::tsvector)
ON CONFLICT (base, key) DO UPDATE
SET title = excluded.title, text = excluded.text, tags = excluded.tags, run_id = excluded.run_id,
    revision = old.revision + 1, written_at = excluded.written_at, words = excluded.words
RETURNING revision
