-- Called by: transfer.rs, in a savepoint, before it fences the tables.
-- Guarantees: locks all tables or none, after the transactions that write them have ended. Reads go
-- on.
LOCK TABLE {schema}.workflow_schedules, {schema}.workflow_bulk, {schema}.workflow_workers, {schema}.workflow_runs,
    {schema}.workflow_lanes, {schema}.workflow_gates, {schema}.workflow_turns, {schema}.workflow_queues,
    {schema}.workflow_limits, {schema}.workflow_tags, {schema}.step_attempts, {schema}.workflow_signals,
    {schema}.workflow_event_waits, {schema}.workflow_seats, {schema}.workflow_line_rates, {schema}.workflow_audit,
    {schema}.workflow_stats, {schema}.workflow_failures, {schema}.workflow_source_lines
    IN SHARE ROW EXCLUSIVE MODE
