-- Called by: InboxStore, when it connects.
-- Guarantees: the table exists. A message is one row, kept once for each key.
CREATE TABLE workflow_inbox (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key      TEXT   NOT NULL UNIQUE,
    receiver TEXT   NOT NULL,
    actor    TEXT   NOT NULL,
    title    TEXT   NOT NULL,
    text     TEXT   NOT NULL,
    data     TEXT   NOT NULL,
    sent_at  BIGINT NOT NULL,
    read_at  BIGINT
)
