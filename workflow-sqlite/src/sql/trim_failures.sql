-- Called by: statistics.rs, after add_failures.sql.
-- Guarantees: no group is left whose last failure is older than that of the ?1 newest groups.
DELETE FROM workflow_failures
WHERE last_at < (SELECT last_at FROM workflow_failures ORDER BY last_at DESC LIMIT 1 OFFSET ?1 - 1)
