-- Called by: KbStore::find.
-- Guarantees: returns one document by its primary key.
SELECT base, key, title, text, tags::text, run_id, revision, written_at
FROM workflow_knowledge
WHERE base = $1 AND key = $2
