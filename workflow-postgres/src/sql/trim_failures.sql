-- Called by: statistics.rs, after add_failures.sql.
-- Guarantees: no group is left whose last failure is older than that of the $1 newest groups.
DELETE FROM {schema}.workflow_failures AS f
WHERE f.last_at < (
    SELECT g.last_at FROM {schema}.workflow_failures AS g ORDER BY g.last_at DESC LIMIT 1 OFFSET $1::bigint - 1
)
