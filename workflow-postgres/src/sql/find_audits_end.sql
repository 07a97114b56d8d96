-- Called by: audit.rs, before list_audits.sql.
-- Guarantees: the id of the row at which a budget of $2 rows before $1 ends; nothing if there are
-- fewer rows.
SELECT a.id FROM {schema}.workflow_audit AS a WHERE a.id < $1 ORDER BY a.id DESC LIMIT 1 OFFSET $2::bigint - 1
