-- Called by: event.rs, after the event of a step was delivered. The run of the step is locked.
-- Guarantees: a later attempt of the step finds how many runs were reached.
INSERT INTO {schema}.workflow_signals (run_id, seq, name, key, payload, consumed_by, created_at)
SELECT $2, COALESCE(max(o.seq), 0) + 1, $3, $4, $5, $3, {now}
FROM {schema}.workflow_signals AS o WHERE o.run_id = $2
