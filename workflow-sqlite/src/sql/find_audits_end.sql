-- Called by: audit.rs, before list_audits.sql.
-- Guarantees: the id of the row at which a budget of ?2 rows before ?1 ends; nothing if there are
-- fewer rows.
SELECT id FROM workflow_audit WHERE id < ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2 - 1
