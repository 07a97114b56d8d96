-- The index of due runs holds two numbers in place of the three names of a lane. To find the place of an entry, some twenty others are
-- compared, each by three texts before the time: of what the server did for a run of five steps, a thirteenth, and of a start a fifth.
-- Whoever looks for a lane compares the names, too, for two of them may have one number.
DROP INDEX {schema}.workflow_runs_due;
CREATE INDEX workflow_runs_due ON {schema}.workflow_runs
    (hashtextextended(workflow_name, hashtextextended(queue, 0)), hashtextextended(version, 0), available_at, id)
    WHERE status IN ('pending', 'running', 'parked') AND paused_at IS NULL;

-- A run is written again when it is claimed and when it ends, and each time its key gets an entry beside the first. Without room for
-- these, pages were split and searched for duplicates: a fiftieth of what the server did for a run.
ALTER INDEX {schema}.workflow_runs_pkey SET (fillfactor = 50);
