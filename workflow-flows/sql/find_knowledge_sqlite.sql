-- Called by: KbStore::find.
-- Guarantees: returns one document by its unique key.
SELECT base, key, title, text, tags, run_id, revision, written_at
FROM workflow_knowledge
WHERE base = $1 AND key = $2
