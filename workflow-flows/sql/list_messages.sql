-- Called by: InboxStore::list.
-- Guarantees: returns the messages of one receiver, or of all, before an id, the newest first, and
-- without those that were read if only the others are wanted.
SELECT id, key, receiver, actor, title, text, data, sent_at, read_at
FROM workflow_inbox
WHERE id < $1 AND (CAST($2 AS TEXT) IS NULL OR receiver = $2) AND (NOT $3 OR read_at IS NULL)
ORDER BY id DESC
LIMIT $4
