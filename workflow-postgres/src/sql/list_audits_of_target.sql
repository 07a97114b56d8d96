-- Called by: audit.rs, with a range that find_audits_end_of_target.sql has found.
-- Guarantees: as list_audits.sql, of the target $6.
SELECT a.id, a.at, a.actor, a.verb, a.target, a.reason, a.arguments, a.outcome
FROM {schema}.workflow_audit AS a
WHERE a.target = $6 AND a.id >= $1 AND a.id < $2 AND starts_with(a.verb, $3) AND ($4::text IS NULL OR a.actor = $4)
ORDER BY a.id DESC
LIMIT $5
