-- Called by: statistics.rs, at the end of a batch that has ended runs without their workers.
-- Guarantees: the failed and canceled runs of each lane are added to the row of all processes for
-- the present minute. Locks in the order of the rows.
INSERT INTO {schema}.workflow_stats AS s
    (seconds, begins_at, process, queue, workflow_name, version, failed, canceled)
SELECT 60, {now} / 60000000 * 60000000, '00000000-0000-0000-0000-000000000000', new.queue, new.workflow_name,
       new.version, new.failed, new.canceled
FROM (
    SELECT unnest($2::text[]) AS queue, unnest($3::text[]) AS workflow_name, unnest($4::text[]) AS version,
           unnest($5::bigint[]) AS failed, unnest($6::bigint[]) AS canceled
) AS new
ON CONFLICT (seconds, begins_at, queue, workflow_name, version, process) DO UPDATE
SET failed = s.failed + excluded.failed, canceled = s.canceled + excluded.canceled
