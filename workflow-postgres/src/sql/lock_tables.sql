-- Called by: migrate.rs, in a savepoint, before a migration changes tables that may be in use.
-- Guarantees: locks all tables or none, after the transactions that began before have ended. A
-- migration that locked one table after the other could wait in a circle with a batch that took
-- them in another order.
LOCK TABLE {schema}.workflow_runs, {schema}.step_attempts, {schema}.workflow_signals, {schema}.workflow_workers,
    {schema}.workflow_lanes, {schema}.workflow_gates, {schema}.workflow_turns, {schema}.workflow_gate_wakes,
    {schema}.workflow_event_waits,
    {schema}.workflow_queues, {schema}.workflow_limits, {schema}.workflow_seats
    IN ACCESS EXCLUSIVE MODE
