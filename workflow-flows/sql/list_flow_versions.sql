-- Called by: FlowStore::versions.
-- Guarantees: returns the versions of a flow, the newest first, by the primary key.
SELECT name, number, version, digest, body, created_at, created_by
FROM workflow_flows
WHERE name = $1
ORDER BY number DESC
