-- Called by: writer.rs, once on every new session of the executor, after configure_session.sql.
-- Guarantees: each statement is planned once, not at every use, and its plan is nested loops over indexes whatever the
-- tables held at that moment: a plan that was made for empty tables is kept while they grow. Without these joins and scans
-- a table could still be read whole through an index, so the statements of the executor leave no such way: a row is found
-- by = ANY, by ctid, or in a LATERAL subquery that LIMIT, OFFSET or a lock keeps apart. One that is found by ctid is locked, or names
-- all that it must be in conditions of its own: of a row that somebody changed meanwhile, servers of before November 2025 (15.15, 17.7)
-- look at these again, but not at the ctid, and would write over what he wrote. Where there is an index of running runs, the status is
-- LIKE 'running': no index serves that. A transaction that pauses is one whose process was stopped: others wait for its runs.
SELECT set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('enable_hashjoin', 'off', false),
       set_config('enable_mergejoin', 'off', false),
       set_config('idle_in_transaction_session_timeout', '10s', false)
