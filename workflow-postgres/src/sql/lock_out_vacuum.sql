-- Called by: migrate.rs, before lock_tables.sql, which waits too briefly for the server to end an autovacuum that is in its way.
-- Guarantees: no vacuum is at these tables nor begins on one; whoever reads and writes them goes on.
LOCK TABLE {schema}.workflow_runs, {schema}.step_attempts, {schema}.workflow_signals, {schema}.workflow_workers
    IN SHARE UPDATE EXCLUSIVE MODE
