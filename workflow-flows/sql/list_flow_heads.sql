-- Called by: FlowStore::heads.
-- Guarantees: returns the number of the newest version of each flow, from the primary key alone.
SELECT name, max(number)
FROM workflow_flows
GROUP BY name
ORDER BY name
