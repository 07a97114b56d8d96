-- Called by: bulk.rs, by the workers.
-- Guarantees: returns the time, and when the next bulk operation is due; no row if all have ended.
-- Reads one entry of the index.
SELECT {now} AS now, b.available_at
FROM {schema}.workflow_bulk AS b
WHERE b.status = 'running'
ORDER BY b.available_at
LIMIT 1
