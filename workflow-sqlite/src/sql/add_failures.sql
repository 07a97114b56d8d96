-- Called by: statistics.rs, at the end of a batch.
-- Guarantees: the failures of ?1 are added to their groups.
INSERT INTO workflow_failures (workflow_name, kind, step, message, count, first_at, last_at, first_version, last_run_id)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8
FROM jsonb_each(?1)
WHERE true
ON CONFLICT (workflow_name, kind, step, message) DO UPDATE
SET count = count + excluded.count,
    first_version = CASE WHEN excluded.first_at < first_at THEN excluded.first_version ELSE first_version END,
    first_at = min(first_at, excluded.first_at),
    last_run_id = CASE WHEN excluded.last_at >= last_at THEN excluded.last_run_id ELSE last_run_id END,
    last_at = max(last_at, excluded.last_at)
