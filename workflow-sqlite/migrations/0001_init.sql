-- The tables of the engine. Times are microseconds since 1970-01-01 UTC; payloads are JSON text as
-- it was written.

-- Columns that every claim, fence and renewal reads stand first, payloads last: SQLite reads all
-- pages of a large payload to reach a column behind it.
CREATE TABLE workflow_runs (
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
    deadline_at         INTEGER,
    cancel_requested_at INTEGER,
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
    CHECK (status IN ('pending', 'running', 'parked', 'succeeded', 'failed', 'canceled'))
) STRICT, WITHOUT ROWID;

-- At most one run per workflow and key.
CREATE UNIQUE INDEX workflow_runs_key ON workflow_runs (workflow_name, key) WHERE key IS NOT NULL;

-- Serves the claim: the unfinished runs of a lane in the order in which they are due.
CREATE INDEX workflow_runs_due ON workflow_runs (queue, workflow_name, version, available_at, id)
    WHERE status IN ('pending', 'running', 'parked');

-- Serves the take-over of a dead worker's claims.
CREATE INDEX workflow_runs_worker ON workflow_runs (worker_id) WHERE status = 'running';

-- Serves the expiry of runs that no worker claims.
CREATE INDEX workflow_runs_deadline ON workflow_runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked');

CREATE TABLE step_attempts (
    run_id       TEXT    NOT NULL,
    step_key     TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    position     INTEGER,
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER,
    error        TEXT,
    output       TEXT,
    PRIMARY KEY (run_id, step_key, attempt),
    CHECK (status IN ('running', 'succeeded', 'failed'))
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_signals (
    run_id      TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    payload     TEXT    NOT NULL,
    consumed_by TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

-- Workers, whose liveness locks other workers check.
CREATE TABLE workflow_workers (
    id         TEXT    NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
