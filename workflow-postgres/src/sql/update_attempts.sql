-- Called by: attempt.rs, after insert_attempts.sql found some of the same rows there, in its transaction.
-- Guarantees: a final row is never changed, nor the time at which an attempt began. What this transaction has inserted is
-- not written a second time.
UPDATE {schema}.step_attempts AS a
SET kind = w.kind, status = w.status, position = w.position, output = w.output, error = w.error, epoch = w.epoch,
    completed_at = w.completed_at
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
            $9::bigint[], $10::bigint[], $11::bigint[])
    AS w(run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place, o.xmin AS written_by FROM {schema}.step_attempts AS o
    WHERE o.run_id = w.run_id AND o.step_key = w.step_key AND o.attempt = w.attempt
    LIMIT 1
) AS found
WHERE found.written_by <> pg_current_xact_id()::xid AND a.ctid = found.place AND a.status = 'running'
