-- Called by: KbStore, when it connects.
-- Guarantees: the full-text index exists.
CREATE INDEX workflow_knowledge_words ON workflow_knowledge USING gin (words)
