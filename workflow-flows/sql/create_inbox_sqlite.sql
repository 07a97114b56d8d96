-- Called by: InboxStore, when it connects.
-- Guarantees: the table exists. A message is one row, kept once for each key.
CREATE TABLE IF NOT EXISTS workflow_inbox (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    key      TEXT    NOT NULL UNIQUE,
    receiver TEXT    NOT NULL,
    actor    TEXT    NOT NULL,
    title    TEXT    NOT NULL,
    text     TEXT    NOT NULL,
    data     TEXT    NOT NULL,
    sent_at  INTEGER NOT NULL,
    read_at  INTEGER
)
