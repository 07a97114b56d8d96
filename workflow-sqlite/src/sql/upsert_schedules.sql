-- Called by: schedule.rs, with rows whose revisions were compared in this transaction.
-- Guarantees: each schedule has this row.
INSERT INTO workflow_schedules (name, revision, available_at, input, record)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM jsonb_each(?1)
WHERE true
ON CONFLICT (name) DO UPDATE
SET revision = excluded.revision, available_at = excluded.available_at, input = excluded.input,
    record = excluded.record
