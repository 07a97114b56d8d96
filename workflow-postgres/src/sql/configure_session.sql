-- Called by: open.rs, once on every new session, the lease's and the listener's included.
-- Guarantees: the session's promises (isolation, durability, time-outs) do not depend on the server's configuration, nor do
-- its plans: a generic plan takes LIMIT $n for a tenth of the table, and at the server's default cost of a random page a
-- batch of ids is looked up by reading the table whole. JIT costs more than any of our statements.
SELECT set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', 'on', false),
       set_config('statement_timeout', '30s', false),
       set_config('lock_timeout', '10s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('plan_cache_mode', 'force_custom_plan', false),
       set_config('random_page_cost', '1.1', false),
       set_config('jit', 'off', false)
