-- Called by: session.rs, once on every new session of the executor, after configure_session.sql.
-- Guarantees: each statement is planned once, and its plan is nested loops over indexes, whatever
-- the tables held at that moment. A plan that was made for empty tables is kept while they grow.
-- The switched-off joins and scans are not enough, because a table could still be read whole
-- through an index. So the statements of the executor leave no such way: a row is found by = ANY,
-- by ctid, or in a LATERAL subquery that LIMIT, OFFSET or a lock keeps apart. A row that is found
-- by ctid is locked, or the statement repeats all its conditions: if another transaction changed
-- the row meanwhile, servers before November 2025 (15.15, 17.7) check these again but not the ctid,
-- and would overwrite the change. Where an index of running runs exists, the status is LIKE
-- 'running', which no index serves. A transaction that is idle for long belongs to a stopped
-- process, and other processes wait for its runs.
SELECT set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('enable_hashjoin', 'off', false),
       set_config('enable_mergejoin', 'off', false),
       set_config('idle_in_transaction_session_timeout', '10s', false)
