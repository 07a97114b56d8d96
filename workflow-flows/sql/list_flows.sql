-- Called by: FlowStore::list.
-- Guarantees: returns the newest version of each of the first $1 flows, in the order of their
-- names.
SELECT name, number, version, digest, body, created_at, created_by
FROM workflow_flows AS f
WHERE number = (SELECT max(number) FROM workflow_flows AS g WHERE g.name = f.name)
ORDER BY name
LIMIT $1
