-- Called by: FlowStore::transfer.
-- Guarantees: returns all versions of all flows, the oldest of each first.
SELECT name, number, version, digest, body, created_at, created_by
FROM workflow_flows
ORDER BY name, number
