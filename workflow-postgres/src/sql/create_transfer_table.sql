-- Called by: transfer.rs, first in the transaction that fences the database.
-- Guarantees: the table exists. It has one row while the database takes part in a transfer,
-- otherwise none. Only the transaction that copies rows sees 1 in writes.
CREATE TABLE IF NOT EXISTS {schema}.workflow_transfer (
    begun_at bigint NOT NULL,
    ended_at bigint,
    writes   bigint NOT NULL DEFAULT 0,
    id       uuid   NOT NULL PRIMARY KEY,
    role     text   NOT NULL,
    other    text   NOT NULL,
    cursor   text
)
