-- Called by: statistics.rs, at the end of a batch.
-- Guarantees: the failures are added to their groups. Locks in the order of the rows.
INSERT INTO {schema}.workflow_failures AS f
    (workflow_name, kind, step, message, count, first_at, last_at, first_version, last_run_id)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::bigint[]),
       unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::text[]), unnest($9::uuid[])
ON CONFLICT (workflow_name, kind, step, message) DO UPDATE
SET count = f.count + excluded.count,
    first_version = CASE WHEN excluded.first_at < f.first_at THEN excluded.first_version ELSE f.first_version END,
    first_at = LEAST(f.first_at, excluded.first_at),
    last_run_id = CASE WHEN excluded.last_at >= f.last_at THEN excluded.last_run_id ELSE f.last_run_id END,
    last_at = GREATEST(f.last_at, excluded.last_at)
