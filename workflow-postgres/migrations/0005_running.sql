-- Running runs have an index of their own. A run was in two of them while it ran, and each was written at its claim and at each renewal:
-- of what the server did for a run of five steps, a thirtieth.

-- Serves the claim: a lane's runs in the order in which they are due, but for those that run, have ended or are paused.
DROP INDEX {schema}.workflow_runs_due;
CREATE INDEX workflow_runs_due ON {schema}.workflow_runs
    (hashtextextended(workflow_name, hashtextextended(queue, 0)), hashtextextended(version, 0), available_at, id)
    WHERE status IN ('pending', 'parked') AND paused_at IS NULL;

-- Serves the claim, too: a lane's runs in the order in which their leases end. And the take-over of a dead worker's claims, for which
-- all of it is read, and of the table only what this worker holds.
DROP INDEX {schema}.workflow_runs_worker;
CREATE INDEX workflow_runs_running ON {schema}.workflow_runs
    (hashtextextended(workflow_name, hashtextextended(queue, 0)), hashtextextended(version, 0), available_at, id, worker_id)
    WHERE status = 'running';
