-- Running runs have an index of their own. A run was in two of them while it ran, and each is written at its claim and at its end: of
-- what SQLite does for a run of five steps, a tenth.

-- Serves the claim: a lane's runs in the order in which they are due, but for those that run, have ended or are paused.
DROP INDEX workflow_runs_due;
CREATE INDEX workflow_runs_due ON workflow_runs (queue, workflow_name, version, available_at, id)
    WHERE status IN ('pending', 'parked') AND paused_at IS NULL;

-- Serves the claim, too: a lane's runs in the order in which their leases end. And the take-over of a dead worker's claims, for which
-- all of it is read: it holds what runs now and no more.
DROP INDEX workflow_runs_worker;
CREATE INDEX workflow_runs_running ON workflow_runs (queue, workflow_name, version, available_at, id, worker_id)
    WHERE status = 'running';
