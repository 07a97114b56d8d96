-- Called by: limit.rs.
-- Guarantees: every limit with a record, in the order of the names.
SELECT name, declared, overridden FROM workflow_limits ORDER BY name
