-- Called by: workers.rs.
-- Guarantees: at most ?1 lanes without a gate, in the order of their names. Reads no others: those
-- behind gates have numbers below 0.
SELECT queue, workflow_name, version
FROM (SELECT queue, workflow_name, version FROM workflow_lanes WHERE id > 0 ORDER BY id LIMIT +?1)
ORDER BY queue, workflow_name, version
