-- Called by: audit.rs, with a range that find_audits_end.sql has found.
-- Guarantees: the rows after ?1 and before ?2 whose verb begins with ?3 and whose actor is ?4,
-- unless that is NULL, the newest first, at most ?5.
SELECT id, at, actor, verb, target, reason, arguments, outcome
FROM workflow_audit
WHERE id >= ?1 AND id < ?2 AND substr(verb, 1, length(?3)) = ?3 AND (?4 IS NULL OR actor = ?4)
ORDER BY id DESC
LIMIT +?5
