-- Called by: migrate.rs, before lock_tables.sql, which does not wait long enough for the server to
-- end an autovacuum that is in its way.
-- Guarantees: no vacuum works on these tables, and none begins. Reads and writes go on.
LOCK TABLE {schema}.workflow_runs, {schema}.step_attempts, {schema}.workflow_signals, {schema}.workflow_workers
    IN SHARE UPDATE EXCLUSIVE MODE
