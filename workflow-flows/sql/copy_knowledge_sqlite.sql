-- Called by: KbStore::transfer.
-- Guarantees: the document is there as it was copied, and its id is returned. A document of the key
-- that differs stays, and no row is returned.
INSERT INTO workflow_knowledge AS old (base, key, title, text, tags, run_id, revision, written_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (base, key) DO UPDATE
SET revision = excluded.revision
WHERE (old.title, old.text, old.tags, old.run_id, old.revision, old.written_at)
      IS (excluded.title, excluded.text, excluded.tags, excluded.run_id, excluded.revision, excluded.written_at)
RETURNING id
