-- Called by: open.rs, once on every new session, also the lease's and the listener's.
-- Guarantees: isolation, durability, time-outs and plans do not depend on the configuration of the
-- server; a server that demands more for a commit than our sessions do gets it. A generic plan
-- would take LIMIT $n for a tenth of the table. At the server's default cost of a random page, a
-- batch of ids would be looked up by reading the whole table. JIT costs more than any of our
-- statements.
SELECT set_config('default_transaction_isolation', 'read committed', false),
       set_config(
           'synchronous_commit',
           CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END,
           false
       ),
       set_config('statement_timeout', '30s', false),
       set_config('lock_timeout', '10s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('plan_cache_mode', 'force_custom_plan', false),
       set_config('random_page_cost', '1.1', false),
       set_config('jit', 'off', false)
