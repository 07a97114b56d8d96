-- Called by: FlowStore::find, FlowStore::deploy.
-- Guarantees: returns one version of a flow, found by its primary key or unique key.
SELECT name, number, version, digest, body, created_at, created_by
FROM workflow_flows
WHERE name = $1 AND version = $2
