-- Called by: attempt.rs, with the steps that took signals; their claims have passed the fence.
-- Guarantees: a signal is taken by one step and stays that step's.
UPDATE {schema}.workflow_signals AS s
SET consumed_by = c.step_key
FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS c(run_id, seq, step_key)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.workflow_signals AS o WHERE o.run_id = c.run_id AND o.seq = c.seq LIMIT 1
) AS sent
WHERE s.ctid = sent.place AND s.consumed_by IS NULL
