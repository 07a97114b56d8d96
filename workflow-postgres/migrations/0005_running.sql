-- Gives running runs an index of their own. Before, a run stood in two indexes while it ran, and
-- both were written at its claim and at each renewal.

-- Serves the claim: the runs of a lane in the order in which they are due, without running,
-- finished and paused ones.
DROP INDEX {schema}.workflow_runs_due;
CREATE INDEX workflow_runs_due ON {schema}.workflow_runs
    (hashtextextended(workflow_name, hashtextextended(queue, 0)), hashtextextended(version, 0), available_at, id)
    WHERE status IN ('pending', 'parked') AND paused_at IS NULL;

-- Serves the claim: the running runs of a lane in the order in which their leases end. Serves the
-- take-over of a dead worker's claims, which reads the whole index, and only that worker's rows of
-- the table.
DROP INDEX {schema}.workflow_runs_worker;
CREATE INDEX workflow_runs_running ON {schema}.workflow_runs
    (hashtextextended(workflow_name, hashtextextended(queue, 0)), hashtextextended(version, 0), available_at, id, worker_id)
    WHERE status = 'running';
