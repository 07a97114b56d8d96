-- Called by: signal.rs, with signals to runs that lock_runs.sql has locked and that have not ended,
-- in the order of the signals.
-- Guarantees: numbers rise in the order of acceptance, because the lock of the run holds until the
-- commit. A signal whose key the run has seen changes nothing. Returns the new signals.
INSERT INTO {schema}.workflow_signals AS g (run_id, seq, name, key, payload, created_at)
SELECT s.run_id,
       COALESCE((SELECT max(o.seq) FROM {schema}.workflow_signals AS o WHERE o.run_id = s.run_id), 0)
           + row_number() OVER (PARTITION BY s.run_id ORDER BY s.place),
       s.name, s.key, s.payload, {now}
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS s(run_id, name, key, payload, place)
ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
RETURNING g.run_id AS id, g.key
