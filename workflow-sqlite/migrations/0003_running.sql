-- Gives running runs an index of their own. Before, a run stood in two indexes while it ran, and
-- both were written at its claim and at its end.

-- Serves the claim: the runs of a lane in the order in which they are due, without running,
-- finished and paused ones.
DROP INDEX workflow_runs_due;
CREATE INDEX workflow_runs_due ON workflow_runs (queue, workflow_name, version, available_at, id)
    WHERE status IN ('pending', 'parked') AND paused_at IS NULL;

-- Serves the claim: the running runs of a lane in the order in which their leases end. Serves the
-- take-over of a dead worker's claims, which reads the whole index: it holds only running runs.
DROP INDEX workflow_runs_worker;
CREATE INDEX workflow_runs_running ON workflow_runs (queue, workflow_name, version, available_at, id, worker_id)
    WHERE status = 'running';
