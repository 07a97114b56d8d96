-- Adds columns and tables for signals, children, pauses, attempts of runs and continued runs.

-- Recreates the table: an added column would stand last, behind the payloads, and SQLite reads all
-- pages of a payload to reach a column behind it.
CREATE TABLE workflow_runs_next (
    id                  TEXT    NOT NULL PRIMARY KEY,   -- UUIDv7 in its usual form, so that text order is time order
    status              TEXT    NOT NULL,
    epoch               INTEGER NOT NULL DEFAULT 0,
    available_at        INTEGER NOT NULL,
    queue               TEXT    NOT NULL,
    workflow_name       TEXT    NOT NULL,
    version             TEXT    NOT NULL,
    worker_id           TEXT,
    wakes               INTEGER NOT NULL DEFAULT 0,
    crashes             INTEGER NOT NULL DEFAULT 0,
    lone_crashes        INTEGER,                        -- crashes while the run was driven alone; NULL for none
    alone_epoch         INTEGER,                        -- the last epoch under which it was driven alone
    attempt             INTEGER NOT NULL DEFAULT 1,     -- of the run: rises when a failed run is tried again
    generation          INTEGER NOT NULL DEFAULT 0,     -- rises when the run continues as new
    depth               INTEGER NOT NULL DEFAULT 0,     -- 0 for a run that the application started
    on_parent_end       TEXT,                           -- NULL for a run without a parent
    deadline_at         INTEGER,
    cancel_requested_at INTEGER,
    paused_at           INTEGER,
    created_at          INTEGER NOT NULL,
    started_at          INTEGER,
    completed_at        INTEGER,
    key                 TEXT,
    parent_run_id       TEXT,
    parent_step_key     TEXT,
    tags                TEXT    NOT NULL DEFAULT '{}',
    error               TEXT,
    output              TEXT,
    input               TEXT    NOT NULL,
    CHECK (status IN ('pending', 'running', 'parked', 'succeeded', 'failed', 'canceled')),
    CHECK (on_parent_end IN ('cancel', 'abandon'))
) STRICT, WITHOUT ROWID;

INSERT INTO workflow_runs_next
    (id, status, epoch, available_at, queue, workflow_name, version, worker_id, wakes, crashes, deadline_at,
     cancel_requested_at, created_at, started_at, completed_at, key, parent_run_id, parent_step_key, tags, error, output, input)
SELECT id, status, epoch, available_at, queue, workflow_name, version, worker_id, wakes, crashes, deadline_at,
     cancel_requested_at, created_at, started_at, completed_at, key, parent_run_id, parent_step_key, tags, error, output, input
FROM workflow_runs;

DROP TABLE workflow_runs;
ALTER TABLE workflow_runs_next RENAME TO workflow_runs;

-- At most one run per workflow and key.
CREATE UNIQUE INDEX workflow_runs_key ON workflow_runs (workflow_name, key) WHERE key IS NOT NULL;

-- Serves the claim: the runs of a lane in the order in which they are due, without finished and
-- paused ones.
CREATE INDEX workflow_runs_due ON workflow_runs (queue, workflow_name, version, available_at, id)
    WHERE status IN ('pending', 'running', 'parked') AND paused_at IS NULL;

-- Serves the take-over of a dead worker's claims.
CREATE INDEX workflow_runs_worker ON workflow_runs (worker_id) WHERE status = 'running';

-- Serves the expiry of runs that no worker claims.
CREATE INDEX workflow_runs_deadline ON workflow_runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked');

-- Serves the end of a parent: its children that have not ended.
CREATE INDEX workflow_runs_parent ON workflow_runs (parent_run_id)
    WHERE parent_run_id IS NOT NULL AND status IN ('pending', 'running', 'parked');

-- Serves the list of approvals that wait for a decision.
CREATE INDEX step_attempts_approval ON step_attempts (run_id, step_key) WHERE kind = 'approval' AND status = 'running';

-- The inbox of a run. The key makes a signal that is sent twice one signal.
DROP TABLE workflow_signals;
CREATE TABLE workflow_signals (
    run_id      TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    key         TEXT,
    consumed_by TEXT,
    created_at  INTEGER NOT NULL,
    payload     TEXT    NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX workflow_signals_key ON workflow_signals (run_id, key) WHERE key IS NOT NULL;
CREATE INDEX workflow_signals_waiting ON workflow_signals (run_id, seq) WHERE consumed_by IS NULL;

-- The lanes that a worker serves: a run without a worker for its lane differs from a run that waits
-- its turn.
ALTER TABLE workflow_workers ADD COLUMN lanes TEXT NOT NULL DEFAULT '[]';
