-- Called by: SecretStore::transfer.
-- Guarantees: inserts the row as it was copied. A row that differs stays, and no row is changed.
INSERT INTO workflow_flow_secrets AS old (actor, name, key_id, sealed, set_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name, actor) DO UPDATE
SET set_at = excluded.set_at
WHERE (old.key_id, old.sealed, old.set_at) = (excluded.key_id, excluded.sealed, excluded.set_at)
