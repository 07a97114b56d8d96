-- Called by: FlowStore::counts.
-- Guarantees: returns how many versions each flow has, from the primary key alone.
SELECT name, count(*)
FROM workflow_flows
GROUP BY name
ORDER BY name
