-- Called by: audit.rs, with a range that find_audits_end.sql has found.
-- Guarantees: the rows from $1 to before $2 whose verb begins with $3 and whose actor is $4, unless
-- that is NULL, the newest first, at most $5.
SELECT a.id, a.at, a.actor, a.verb, a.target, a.reason, a.arguments, a.outcome
FROM {schema}.workflow_audit AS a
WHERE a.id >= $1 AND a.id < $2 AND starts_with(a.verb, $3) AND ($4::text IS NULL OR a.actor = $4)
ORDER BY a.id DESC
LIMIT $5
