-- Called by: KbStore, when it connects.
-- Guarantees: the full-text index exists. It keeps no copy of the texts. It gets words that are
-- separated already, so its tokenizer has nothing to decide.
CREATE VIRTUAL TABLE IF NOT EXISTS workflow_knowledge_words
USING fts5(title, text, content='', contentless_delete=1, tokenize='ascii')
