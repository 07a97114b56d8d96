-- Called by: event.rs, with waits whose events this transaction shares, of runs that lock_runs.sql
-- has locked.
-- Guarantees: a wait that has received its event is not registered again.
INSERT INTO {schema}.workflow_event_waits AS w (run_id, step_key, name, key, signal)
SELECT n.run_id, n.step_key, n.name, n.key, n.signal
FROM (
    SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key, unnest($3::text[]) AS name,
           unnest($4::text[]) AS key, unnest($5::text[]) AS signal
) AS n
WHERE NOT EXISTS (SELECT FROM {schema}.workflow_signals AS s WHERE s.run_id = n.run_id AND s.key = n.signal)
ON CONFLICT (run_id, step_key) DO UPDATE SET name = excluded.name, key = excluded.key, signal = excluded.signal
