-- Called by: audit.rs, before list_audits_of_target.sql.
-- Guarantees: as find_audits_end.sql, among the rows of the target ?3.
SELECT id FROM workflow_audit WHERE target = ?3 AND id < ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2 - 1
