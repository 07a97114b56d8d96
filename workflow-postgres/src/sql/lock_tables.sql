-- Called by: migrate.rs, in a savepoint, before a migration touches tables that may be in use.
-- Guarantees: all of them or none; only transactions that began before are still to end. A migration that took one after the
-- other, and kept what it has, would be in a circle with a worker's batch that took them in another order.
LOCK TABLE {schema}.workflow_runs, {schema}.step_attempts, {schema}.workflow_signals, {schema}.workflow_workers
    IN ACCESS EXCLUSIVE MODE
