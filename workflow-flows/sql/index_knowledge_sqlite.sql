-- Called by: KbStore::write, KbStore::put, after write_knowledge_sqlite in the same transaction.
-- Guarantees: the index has these words of the document, and no older ones.
INSERT OR REPLACE INTO workflow_knowledge_words (rowid, title, text)
VALUES ($1, $2, $3)
