-- Called by: SecretStore, when it connects.
-- Guarantees: the table exists. A secret is one row for each account and name. The account of one
-- that is for all accounts is empty. A value stands here as the codec of the store has sealed it.
CREATE TABLE IF NOT EXISTS workflow_flow_secrets (
    actor  TEXT   NOT NULL,
    name   TEXT   NOT NULL,
    key_id TEXT   NOT NULL,
    sealed TEXT   NOT NULL,
    set_at BIGINT NOT NULL,
    PRIMARY KEY (name, actor)
)
