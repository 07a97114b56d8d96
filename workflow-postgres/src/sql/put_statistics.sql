-- Called by: statistics.rs, at the end of a batch.
-- Guarantees: each row is in the table with these counts, in place of older ones. Locks in the
-- order of the rows.
INSERT INTO {schema}.workflow_stats AS s
    (seconds, begins_at, process, queue, workflow_name, version, started, begun, succeeded, failed, canceled, retries,
     waited, worked, durations)
SELECT unnest($1::integer[]), unnest($2::bigint[]), unnest($3::uuid[]), unnest($4::text[]), unnest($5::text[]),
       unnest($6::text[]), unnest($7::bigint[]), unnest($8::bigint[]), unnest($9::bigint[]), unnest($10::bigint[]),
       unnest($11::bigint[]), unnest($12::bigint[]), unnest($13::bigint[]), unnest($14::bigint[]),
       unnest($15::text[])
ON CONFLICT (seconds, begins_at, queue, workflow_name, version, process) DO UPDATE
SET started = excluded.started, begun = excluded.begun, succeeded = excluded.succeeded, failed = excluded.failed,
    canceled = excluded.canceled, retries = excluded.retries, waited = excluded.waited, worked = excluded.worked,
    durations = excluded.durations
