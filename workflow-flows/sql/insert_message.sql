-- Called by: InboxStore::put.
-- Guarantees: inserts one message, or nothing if one of this key is there.
INSERT INTO workflow_inbox (key, receiver, actor, title, text, data, sent_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (key) DO NOTHING
