-- Called by: InboxStore::transfer.
-- Guarantees: returns messages after an id, the oldest first.
SELECT id, key, receiver, actor, title, text, data, sent_at, read_at
FROM workflow_inbox
WHERE id > $1
ORDER BY id
LIMIT $2
