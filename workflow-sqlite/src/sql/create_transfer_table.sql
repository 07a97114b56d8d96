-- Called by: transfer.rs, first in the transaction that fences the database.
-- Guarantees: the table exists. It has one row while the database takes part in a transfer,
-- otherwise none. Only the transaction that copies rows sees 1 in writes.
CREATE TABLE IF NOT EXISTS workflow_transfer (
    id       TEXT    NOT NULL PRIMARY KEY,
    role     TEXT    NOT NULL,
    other    TEXT    NOT NULL,
    begun_at INTEGER NOT NULL,
    ended_at INTEGER,
    writes   INTEGER NOT NULL DEFAULT 0,
    cursor   TEXT
) STRICT
