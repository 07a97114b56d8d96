-- Called by: statistics.rs, before take_statistics.sql.
-- Guarantees: one transaction folds at a time. Waits for none.
SELECT pg_try_advisory_xact_lock(hashtext('{schema}' || chr(2) || 'statistics'), 0) AS locked
