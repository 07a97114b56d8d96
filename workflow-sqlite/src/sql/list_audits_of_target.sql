-- Called by: audit.rs, with a range that find_audits_end_of_target.sql has found.
-- Guarantees: as list_audits.sql, of the target ?6.
SELECT id, at, actor, verb, target, reason, arguments, outcome
FROM workflow_audit
WHERE target = ?6 AND id >= ?1 AND id < ?2 AND substr(verb, 1, length(?3)) = ?3 AND (?4 IS NULL OR actor = ?4)
ORDER BY id DESC
LIMIT +?5
