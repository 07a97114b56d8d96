-- The index of due runs holds two numbers instead of the three names of a lane, because each
-- insertion compares the new entry with about twenty others. A query compares the names too,
-- because two lanes may share a number.
DROP INDEX {schema}.workflow_runs_due;
CREATE INDEX workflow_runs_due ON {schema}.workflow_runs
    (hashtextextended(workflow_name, hashtextextended(queue, 0)), hashtextextended(version, 0), available_at, id)
    WHERE status IN ('pending', 'running', 'parked') AND paused_at IS NULL;

-- A run is written again when it is claimed and when it ends, and each time its key gets a further
-- entry. The fill factor leaves room for these; otherwise pages are split.
ALTER INDEX {schema}.workflow_runs_pkey SET (fillfactor = 50);
