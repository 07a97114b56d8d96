-- Called by: signal.rs, with signals to runs that lock_runs.sql has locked and that have not ended,
-- in the order of the signals.
-- Guarantees: numbers rise in the order of acceptance, because the lock of the run holds until the
-- commit. A signal whose key the run has seen changes nothing, nor does one whose limit of waiting
-- signals is reached. Returns the new signals. The distance between the first waiting signal and
-- the last one is found by index; the waiting signals are counted only if that distance exceeds the
-- limit.
INSERT INTO {schema}.workflow_signals AS g (run_id, seq, name, key, payload, created_at)
SELECT s.run_id, s.last + s.number, s.name, s.key, s.payload, {now}
FROM (
    SELECT n.run_id, n.name, n.key, n.payload, n.most,
           COALESCE((SELECT max(o.seq) FROM {schema}.workflow_signals AS o WHERE o.run_id = n.run_id), 0) AS last,
           row_number() OVER (PARTITION BY n.run_id ORDER BY n.place) AS number
    FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[])
         WITH ORDINALITY AS n(run_id, name, key, payload, most, place)
) AS s
WHERE s.most IS NULL
   OR s.last + s.number - COALESCE((SELECT min(w.seq) FROM {schema}.workflow_signals AS w
                                    WHERE w.run_id = s.run_id AND w.consumed_by IS NULL), s.last + 1) < s.most
   OR (SELECT count(*) FROM {schema}.workflow_signals AS w WHERE w.run_id = s.run_id AND w.consumed_by IS NULL)
      + s.number <= s.most
ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
RETURNING g.run_id AS id, g.key
