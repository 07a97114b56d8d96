-- Called by: InboxStore::mark_read.
-- Guarantees: the message counts as read since now, or since it was read first. Returns it, or
-- nothing if there is none of this id.
UPDATE workflow_inbox
SET read_at = COALESCE(read_at, $2)
WHERE id = $1
RETURNING id, key, receiver, actor, title, text, data, sent_at, read_at
