-- Called by: InboxStore, when it connects.
-- Guarantees: the messages of one receiver are found by an index, the newest first.
CREATE INDEX IF NOT EXISTS workflow_inbox_receivers ON workflow_inbox (receiver, id)
