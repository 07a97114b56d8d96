-- Called by: FlowStore::deploy.
-- Guarantees: inserts one version, or nothing if another deploy took its number or its version.
INSERT INTO workflow_flows (name, number, version, digest, body, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING
