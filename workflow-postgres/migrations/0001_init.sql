-- The tables of the engine. Times are microseconds since 1970-01-01 UTC; payloads are JSON text as
-- it was written, because JSONB refuses NUL, reorders keys and changes numbers.

CREATE TABLE {schema}.workflow_runs (
    id                  uuid   NOT NULL PRIMARY KEY,
    workflow_name       text   NOT NULL COLLATE "C",
    version             text   NOT NULL COLLATE "C",
    queue               text   NOT NULL COLLATE "C",
    status              text   NOT NULL COLLATE "C",
    input               text   NOT NULL,
    output              text,
    error               text,
    key                 text   COLLATE "C",
    parent_run_id       uuid,
    parent_step_key     text   COLLATE "C",
    available_at        bigint NOT NULL,
    worker_id           uuid,
    epoch               bigint NOT NULL DEFAULT 0,
    wakes               bigint NOT NULL DEFAULT 0,
    crashes             bigint NOT NULL DEFAULT 0,
    deadline_at         bigint,
    cancel_requested_at bigint,
    created_at          bigint NOT NULL,
    started_at          bigint,
    completed_at        bigint,
    tags                text   NOT NULL DEFAULT '{}',
    CHECK (status IN ('pending', 'running', 'parked', 'succeeded', 'failed', 'canceled'))
);

-- Every claim, renewal and end leaves a dead row behind. With the server's default, a vacuum after
-- a fifth of the table, the dead rows of a large table would slow down every claim.
ALTER TABLE {schema}.workflow_runs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- At most one run per workflow and key.
CREATE UNIQUE INDEX workflow_runs_key ON {schema}.workflow_runs (workflow_name, key) WHERE key IS NOT NULL;

-- Serves the claim: the unfinished runs of a lane in the order in which they are due.
CREATE INDEX workflow_runs_due ON {schema}.workflow_runs (queue, workflow_name, version, available_at, id)
    WHERE status IN ('pending', 'running', 'parked');

-- Serves the take-over of a dead worker's claims.
CREATE INDEX workflow_runs_worker ON {schema}.workflow_runs (worker_id) WHERE status = 'running';

-- Serves the expiry of runs that no worker claims.
CREATE INDEX workflow_runs_deadline ON {schema}.workflow_runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked');

CREATE TABLE {schema}.step_attempts (
    run_id       uuid   NOT NULL,
    step_key     text   NOT NULL COLLATE "C",
    attempt      bigint NOT NULL,
    kind         text   NOT NULL COLLATE "C",
    status       text   NOT NULL COLLATE "C",
    position     bigint,
    output       text,
    error        text,
    epoch        bigint NOT NULL,
    started_at   bigint NOT NULL,
    completed_at bigint,
    PRIMARY KEY (run_id, step_key, attempt),
    CHECK (status IN ('running', 'succeeded', 'failed'))
);

CREATE TABLE {schema}.workflow_signals (
    run_id      uuid   NOT NULL,
    seq         bigint NOT NULL,
    name        text   NOT NULL COLLATE "C",
    payload     text   NOT NULL,
    consumed_by text   COLLATE "C",
    created_at  bigint NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- Workers, whose liveness locks other workers check.
CREATE TABLE {schema}.workflow_workers (
    id         uuid   NOT NULL PRIMARY KEY,
    lock_key   bigint NOT NULL,
    started_at bigint NOT NULL
);
