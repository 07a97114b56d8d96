-- Called by: KbStore, when it connects.
-- Guarantees: the table exists. A document and its words are one row.
CREATE TABLE workflow_knowledge (
    base       TEXT     COLLATE "C" NOT NULL,
    key        TEXT     COLLATE "C" NOT NULL,
    title      TEXT     NOT NULL,
    text       TEXT     NOT NULL,
    tags       JSONB    NOT NULL,
    run_id     TEXT,
    revision   BIGINT   NOT NULL,
    written_at BIGINT   NOT NULL,
    words      TSVECTOR NOT NULL,
    PRIMARY KEY (base, key)
)
