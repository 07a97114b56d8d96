-- Called by: FlowStore, when it connects.
-- Guarantees: the table exists. Rows are only inserted.
CREATE TABLE IF NOT EXISTS workflow_flows (
    name       TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    version    TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    body       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT   NOT NULL,
    PRIMARY KEY (name, number),
    UNIQUE (name, version)
)
