-- Called by: InboxStore::transfer.
-- Guarantees: the message is there as it was copied. A message of the key that differs stays, and
-- no row is changed.
INSERT INTO workflow_inbox AS old (key, receiver, actor, title, text, data, sent_at, read_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (key) DO UPDATE
SET read_at = excluded.read_at
WHERE (old.receiver, old.actor, old.title, old.text, old.data, old.sent_at)
      = (excluded.receiver, excluded.actor, excluded.title, excluded.text, excluded.data, excluded.sent_at)
