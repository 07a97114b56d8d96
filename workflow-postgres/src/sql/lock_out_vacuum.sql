-- Called by: migrate.rs, before lock_tables.sql, which does not wait long enough for the server to
-- end an autovacuum that is in its way.
-- Guarantees: no vacuum works on these tables, and none begins. Reads and writes go on.
LOCK TABLE {schema}.workflow_runs, {schema}.step_attempts, {schema}.workflow_signals, {schema}.workflow_workers,
    {schema}.workflow_lanes, {schema}.workflow_gates, {schema}.workflow_turns, {schema}.workflow_gate_wakes,
    {schema}.workflow_event_waits
    IN SHARE UPDATE EXCLUSIVE MODE
