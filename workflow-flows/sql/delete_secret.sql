-- Called by: SecretStore::remove.
-- Guarantees: the account has no secret of this name.
DELETE FROM workflow_flow_secrets
WHERE actor = $1 AND name = $2
