-- Called by: KbStore, when it connects.
-- Guarantees: the table exists. A document is one row, whose id its words have too.
CREATE TABLE IF NOT EXISTS workflow_knowledge (
    id         INTEGER PRIMARY KEY,
    base       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    tags       TEXT    NOT NULL,
    run_id     TEXT,
    revision   INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    UNIQUE (base, key)
)
