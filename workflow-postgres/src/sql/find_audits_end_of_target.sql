-- Called by: audit.rs, before list_audits_of_target.sql.
-- Guarantees: as find_audits_end.sql, among the rows of the target $3.
SELECT a.id FROM {schema}.workflow_audit AS a
WHERE a.target = $3 AND a.id < $1
ORDER BY a.id DESC
LIMIT 1 OFFSET $2::bigint - 1
