-- Called by: schedule.rs, with rows that lock_schedules.sql has locked.
-- Guarantees: each schedule has this row.
UPDATE {schema}.workflow_schedules AS s
SET revision = new.revision, available_at = new.available_at, input = new.input, record = new.record
FROM (
    SELECT unnest($1::text[]) AS name, unnest($2::bigint[]) AS revision, unnest($3::bigint[]) AS available_at,
           unnest($4::text[]) AS input, unnest($5::text[]) AS record
) AS new
WHERE s.name = new.name
