-- Called by: FlowStore::find, FlowStore::deploy.
-- Guarantees: returns the newest version of a flow by one step in the primary key.
SELECT name, number, version, digest, body, created_at, created_by
FROM workflow_flows
WHERE name = $1
ORDER BY number DESC
LIMIT 1
