-- Called by: SecretStore, for each secret that an attempt of a step reads.
-- Guarantees: returns the secret of the account, or else the one of all accounts.
SELECT actor, name, key_id, sealed, set_at
FROM workflow_flow_secrets
WHERE name = $1 AND actor IN ($2, '')
ORDER BY actor DESC
LIMIT 1
