-- Called by: FlowStore::versions.
-- Guarantees: returns at most $2 versions of a flow, the newest first, by the primary key.
SELECT name, number, version, digest, body, created_at, created_by
FROM workflow_flows
WHERE name = $1
ORDER BY number DESC
LIMIT $2
