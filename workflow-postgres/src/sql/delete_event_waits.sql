-- Called by: event.rs, with runs that have ended or continue as new in this transaction.
-- Guarantees: no emission finds these runs, and none of their steps has a seat or waits for one.
WITH seats AS (DELETE FROM {schema}.workflow_seats AS s WHERE s.run_id = ANY ($1::uuid[]))
DELETE FROM {schema}.workflow_event_waits AS w WHERE w.run_id = ANY ($1::uuid[])
