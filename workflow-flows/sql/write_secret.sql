-- Called by: SecretStore::set.
-- Guarantees: the secret has this value, whether it was there before or not.
INSERT INTO workflow_flow_secrets (actor, name, key_id, sealed, set_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name, actor) DO UPDATE
SET key_id = excluded.key_id, sealed = excluded.sealed, set_at = excluded.set_at
