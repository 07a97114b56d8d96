-- Called by: signal.rs, with signals to runs that exist and have not ended.
-- Guarantees: numbers rise in the order of acceptance, because one transaction writes at a time. A
-- signal whose key the run has seen changes nothing, nor does one whose limit of waiting signals is
-- reached. Returns the new signals. The distance between the first waiting signal and the last one
-- is found by index; the waiting signals are counted only if that distance exceeds the limit.
INSERT INTO workflow_signals (run_id, seq, name, key, payload, created_at)
SELECT s.run_id, s.last + s.number, s.name, s.key, s.payload, ?2
FROM (
    SELECT value ->> 0 AS run_id, value ->> 1 AS name, value ->> 2 AS key, value ->> 3 AS payload, value ->> 4 AS most,
           coalesce((SELECT max(seq) FROM workflow_signals AS o WHERE o.run_id = value ->> 0), 0) AS last,
           row_number() OVER (PARTITION BY value ->> 0 ORDER BY jsonb_each.key) AS number
    FROM jsonb_each(?1)
) AS s
WHERE s.most IS NULL
   OR s.last + s.number - coalesce((SELECT min(w.seq) FROM workflow_signals AS w
                                    WHERE w.run_id = s.run_id AND w.consumed_by IS NULL), s.last + 1) < s.most
   OR (SELECT count(*) FROM workflow_signals AS w WHERE w.run_id = s.run_id AND w.consumed_by IS NULL) + s.number <= s.most
ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
RETURNING run_id, key
