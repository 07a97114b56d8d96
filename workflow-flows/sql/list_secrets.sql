-- Called by: SecretStore::list and SecretStore::transfer.
-- Guarantees: returns the secrets behind a name and account, in the order of names and accounts.
SELECT actor, name, key_id, sealed, set_at
FROM workflow_flow_secrets
WHERE (name, actor) > ($1, $2)
ORDER BY name, actor
LIMIT $3
