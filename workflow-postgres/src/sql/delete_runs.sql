-- Called by: deletion.rs, with runs that find_deleted_runs.sql has found to be ended, or with new
-- runs of this transaction.
-- Guarantees: no row of any table belongs to these runs any more, and their keys are free. Returns
-- the numbers of the deleted attempts and signals of each run that had some, and each run itself.
WITH attempts AS (
    DELETE FROM {schema}.step_attempts AS a WHERE a.run_id = ANY ($1::uuid[]) RETURNING a.run_id
), signals AS (
    DELETE FROM {schema}.workflow_signals AS g WHERE g.run_id = ANY ($1::uuid[]) RETURNING g.run_id
), waits AS (
    DELETE FROM {schema}.workflow_event_waits AS w WHERE w.run_id = ANY ($1::uuid[])
), seats AS (
    DELETE FROM {schema}.workflow_seats AS s WHERE s.run_id = ANY ($1::uuid[])
), runs AS (
    DELETE FROM {schema}.workflow_runs AS r WHERE r.id = ANY ($1::uuid[]) RETURNING r.id
)
SELECT runs.id, 'run' AS kind, 1::bigint AS number FROM runs
UNION ALL SELECT attempts.run_id, 'attempt', count(*) FROM attempts GROUP BY attempts.run_id
UNION ALL SELECT signals.run_id, 'signal', count(*) FROM signals GROUP BY signals.run_id
