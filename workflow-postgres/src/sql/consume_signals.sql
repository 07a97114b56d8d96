-- Called by: signal.rs, with the signals that steps consume. The claims of those steps have passed
-- the fence.
-- Guarantees: one step consumes a signal, and the signal stays with that step.
UPDATE {schema}.workflow_signals AS s
SET consumed_by = c.step_key
FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS c(run_id, seq, step_key)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_signals AS o WHERE o.run_id = c.run_id AND o.seq = c.seq LIMIT 1
) AS sent
WHERE s.ctid = sent.place AND s.consumed_by IS NULL
