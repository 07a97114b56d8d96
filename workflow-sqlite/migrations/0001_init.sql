-- The tables of the engine. Times are microseconds since 1970-01-01 UTC; payloads are JSON text as
-- it was written.

-- Lanes: where runs wait, and what a worker claims from. A run and the entries of its indexes hold
-- the number of its lane. A row is never changed and never deleted. Runs behind a gate have a lane
-- of their own, with a number below 0, by which the triggers know it.
CREATE TABLE workflow_lanes (
    id            INTEGER NOT NULL PRIMARY KEY,
    queue         TEXT    NOT NULL,
    workflow_name TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    gate          TEXT    NOT NULL DEFAULT '',          -- empty for the runs behind no gate
    UNIQUE (queue, workflow_name, version, gate),
    CHECK ((id < 0) = (gate <> ''))
) STRICT;

-- Gates: the parts of a queue that have limits of their own and take turns.
CREATE TABLE workflow_gates (
    id     INTEGER NOT NULL PRIMARY KEY,
    queue  TEXT    NOT NULL,
    gate   TEXT    NOT NULL,
    weight INTEGER NOT NULL DEFAULT 1 CHECK (weight > 0), -- how many runs it gives in one turn
    used_until INTEGER NOT NULL DEFAULT 0,              -- until when the rate is used up
    UNIQUE (queue, gate)
) STRICT;

-- When claims look at a lane behind a gate: at open_at, which is also its place in the line. If the
-- gate was full, when one of its runs holds its slot no longer (full_until is then NULL again), but
-- at full_until at the latest, because then the lease of a run ends.
CREATE TABLE workflow_turns (
    lane_id    INTEGER NOT NULL PRIMARY KEY,
    base_id    INTEGER NOT NULL,                        -- the lane of the same names without a gate
    gate_id    INTEGER NOT NULL,
    open_at    INTEGER NOT NULL,
    full_until INTEGER,
    given      INTEGER NOT NULL DEFAULT 0               -- runs of the turn that goes on
) STRICT, WITHOUT ROWID;

-- Serve the search of a claim for gates at which it is time to look.
CREATE INDEX workflow_turns_open ON workflow_turns (base_id, open_at) WHERE full_until IS NULL;
CREATE INDEX workflow_turns_full ON workflow_turns (base_id, full_until) WHERE full_until IS NOT NULL;

-- Serves the count of the running runs behind a gate.
CREATE INDEX workflow_turns_gate ON workflow_turns (gate_id);

-- Queues that were declared, limited or paused. Limits are JSON, as the program wrote them.
CREATE TABLE workflow_queues (
    queue        TEXT    NOT NULL PRIMARY KEY,
    declared     TEXT,                                  -- by the worker that started last
    overridden   TEXT,                                  -- by an operator; holds in place of the declared
    paused_at    INTEGER,
    pause_reason TEXT,
    used_until   INTEGER NOT NULL DEFAULT 0             -- until when the rate is used up
) STRICT;

-- Limits for steps that were declared or set. Rules are JSON, as the program wrote them.
CREATE TABLE workflow_limits (
    name       TEXT NOT NULL PRIMARY KEY,
    declared   TEXT,                        -- by a worker that started, or for a flow
    overridden TEXT                         -- by an operator; holds in place of the declared
) STRICT, WITHOUT ROWID;

-- Columns that every claim, fence and renewal reads stand first, payloads last: SQLite reads all
-- pages of a large payload to reach a column behind it. So a later column of this table needs a new
-- table.
CREATE TABLE workflow_runs (
    id                  TEXT    NOT NULL PRIMARY KEY,   -- UUIDv7 in its usual form, so that text order is time order
    status              TEXT    NOT NULL,
    epoch               INTEGER NOT NULL DEFAULT 0,
    available_at        INTEGER NOT NULL,
    lane_id             INTEGER NOT NULL,               -- a row of workflow_lanes
    rank                INTEGER NOT NULL DEFAULT 3,     -- 0 has begun, else 1 to 4 for the priority
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
    workflow_name       TEXT    NOT NULL,               -- that of the lane, beside the key that is unique in it
    key                 TEXT,
    single_key          TEXT,                           -- that no other run of the workflow has at the same time
    single_until        TEXT,                           -- when the run gives it up: at its 'begin' or 'end'
    parent_run_id       TEXT,
    parent_step_key     TEXT,
    trace               TEXT,                           -- where in a distributed trace the run was started
    tags                TEXT    NOT NULL DEFAULT '{}',
    error               TEXT,
    output              TEXT,
    input               TEXT    NOT NULL,
    CHECK (status IN ('pending', 'running', 'parked', 'succeeded', 'failed', 'canceled')),
    CHECK (on_parent_end IN ('cancel', 'abandon')),
    CHECK (single_until IN ('begin', 'end')),
    CHECK (rank BETWEEN 0 AND 4)
) STRICT, WITHOUT ROWID;

-- At most one run per workflow and key.
CREATE UNIQUE INDEX workflow_runs_key ON workflow_runs (workflow_name, key) WHERE key IS NOT NULL;

-- At most one run per workflow and single key. A run gives its key up by beginning or ending, so no
-- statement has to do it.
CREATE UNIQUE INDEX workflow_runs_single ON workflow_runs (workflow_name, single_key, single_until)
    WHERE single_key IS NOT NULL AND status IN ('pending', 'running', 'parked')
      AND (single_until = 'end' OR epoch = 0);

-- Serves the claim: the runs of a lane and rank in the order in which they are due, without
-- running, finished and paused ones. It ends with the columns of its condition, because SQLite
-- reads these from the table otherwise, also where the condition is known to hold.
CREATE INDEX workflow_runs_due ON workflow_runs (lane_id, rank, available_at, id, status, paused_at)
    WHERE status IN ('pending', 'parked') AND paused_at IS NULL;

-- Serves the claim: the running runs of a lane in the order in which their leases end. Serves the
-- take-over of a dead worker's claims, which reads the whole index: it holds only running runs. A
-- run stands in one of these two indexes, because both are written at each claim.
CREATE INDEX workflow_runs_running ON workflow_runs (lane_id, available_at, id, worker_id)
    WHERE status = 'running';

-- Serve lists and counts: the runs that are parked, that are parked with an error, that are paused,
-- and that failed or were canceled, by id. Ids sort by time. A run that only starts, runs and
-- succeeds stands in none of these.
CREATE INDEX workflow_runs_parked ON workflow_runs (id) WHERE status = 'parked';
CREATE INDEX workflow_runs_stuck ON workflow_runs (id) WHERE status = 'parked' AND error IS NOT NULL;
CREATE INDEX workflow_runs_paused ON workflow_runs (id) WHERE paused_at IS NOT NULL;
CREATE INDEX workflow_runs_failed ON workflow_runs (id, status) WHERE status IN ('failed', 'canceled');

-- The tags of runs by name and value. The key serves lists of the runs with one tag.
CREATE TABLE workflow_tags (
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (name, value, run_id)
) STRICT, WITHOUT ROWID;

-- Triggers, so that no statement that starts, moves or deletes runs can forget the tags.
CREATE TRIGGER workflow_runs_tag AFTER INSERT ON workflow_runs
WHEN NEW.tags <> '{}'
BEGIN
    INSERT INTO workflow_tags (name, value, run_id)
    SELECT tag.key, tag.value, NEW.id FROM json_each(NEW.tags) AS tag;
END;
CREATE TRIGGER workflow_runs_tag_again AFTER UPDATE OF tags ON workflow_runs
WHEN NEW.tags <> OLD.tags
BEGIN
    DELETE FROM workflow_tags
    WHERE run_id = OLD.id AND (name, value) IN (SELECT tag.key, tag.value FROM json_each(OLD.tags) AS tag);
    INSERT INTO workflow_tags (name, value, run_id)
    SELECT tag.key, tag.value, NEW.id FROM json_each(NEW.tags) AS tag;
END;
CREATE TRIGGER workflow_runs_untag AFTER DELETE ON workflow_runs
WHEN OLD.tags <> '{}'
BEGIN
    DELETE FROM workflow_tags
    WHERE run_id = OLD.id AND (name, value) IN (SELECT tag.key, tag.value FROM json_each(OLD.tags) AS tag);
END;

-- A run that waits behind a gate makes claims look at the gate when it is due. A trigger, so that
-- no statement can forget it.
CREATE TRIGGER workflow_runs_wait AFTER INSERT ON workflow_runs
WHEN NEW.lane_id < 0 AND NEW.status IN ('pending', 'parked') AND NEW.paused_at IS NULL
BEGIN
    UPDATE workflow_turns SET open_at = NEW.available_at WHERE lane_id = NEW.lane_id AND open_at > NEW.available_at;
END;
CREATE TRIGGER workflow_runs_wait_again AFTER UPDATE OF status, available_at, paused_at ON workflow_runs
WHEN NEW.lane_id < 0 AND NEW.status IN ('pending', 'parked') AND NEW.paused_at IS NULL
BEGIN
    UPDATE workflow_turns SET open_at = NEW.available_at WHERE lane_id = NEW.lane_id AND open_at > NEW.available_at;
END;

-- A run that gives its slot back makes claims look at its gate again.
CREATE TRIGGER workflow_runs_free AFTER UPDATE OF status ON workflow_runs
WHEN NEW.lane_id < 0 AND OLD.status = 'running' AND NEW.status <> 'running'
BEGIN
    UPDATE workflow_turns SET full_until = NULL
    WHERE gate_id = (SELECT gate_id FROM workflow_turns WHERE lane_id = NEW.lane_id) AND full_until IS NOT NULL;
END;

-- Claims look at a gate when the first lease of a running run ends. They must look sooner if the
-- worker dies, and again if the lease may have ended during a pause.
CREATE TRIGGER workflow_runs_release AFTER UPDATE OF available_at, paused_at ON workflow_runs
WHEN NEW.lane_id < 0 AND OLD.status = 'running' AND NEW.status = 'running'
    AND (NEW.available_at < OLD.available_at OR (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL))
BEGIN
    UPDATE workflow_turns SET full_until = NULL
    WHERE gate_id = (SELECT gate_id FROM workflow_turns WHERE lane_id = NEW.lane_id) AND full_until IS NOT NULL;
    UPDATE workflow_turns SET open_at = NEW.available_at WHERE lane_id = NEW.lane_id AND open_at > NEW.available_at;
END;

-- Serves the expiry of runs that no worker claims.
CREATE INDEX workflow_runs_deadline ON workflow_runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked');

-- Serves the end of a parent: its children that have not ended.
CREATE INDEX workflow_runs_parent ON workflow_runs (parent_run_id)
    WHERE parent_run_id IS NOT NULL AND status IN ('pending', 'running', 'parked');

-- Attempts of steps, patches, published values and items of streams.
CREATE TABLE step_attempts (
    run_id       TEXT    NOT NULL,
    step_key     TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    position     INTEGER,                               -- NULL for a row that is not an outcome
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER,
    error        TEXT,
    output       TEXT,
    PRIMARY KEY (run_id, step_key, attempt),
    CHECK (status IN ('running', 'succeeded', 'failed'))
) STRICT, WITHOUT ROWID;

-- Serves the parts of histories that are shown: outcomes by position and attempts without one.
-- Items of streams, of which a run may have any number, stand in the primary key alone.
CREATE INDEX step_attempts_position ON step_attempts (run_id, position, step_key, attempt)
    WHERE kind <> 'emitted';

-- Serve the list of approvals and decisions that runs wait for: of all, in its order, and of one
-- run. A decision is a wait for a signal with a name of this form.
CREATE INDEX step_attempts_asked ON step_attempts (started_at, run_id, step_key)
    WHERE status = 'running' AND (kind = 'approval' OR (kind = 'signal' AND instr('/' || step_key, '/decision:') > 0));
CREATE INDEX step_attempts_asked_of_run ON step_attempts (run_id, step_key)
    WHERE status = 'running' AND (kind = 'approval' OR (kind = 'signal' AND instr('/' || step_key, '/decision:') > 0));

-- The inboxes of runs.
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

-- The key makes a signal that is sent twice one signal.
CREATE UNIQUE INDEX workflow_signals_key ON workflow_signals (run_id, key) WHERE key IS NOT NULL;
CREATE INDEX workflow_signals_waiting ON workflow_signals (run_id, seq) WHERE consumed_by IS NULL;

-- The waits of runs for events. A row exists from the commit that registers the wait until its
-- event is delivered, its timeout is recorded, or its run ends.
CREATE TABLE workflow_event_waits (
    run_id   TEXT NOT NULL,
    step_key TEXT NOT NULL,
    name     TEXT NOT NULL,
    key      TEXT NOT NULL,
    signal   TEXT NOT NULL,                 -- the name of the signal that delivers the event
    PRIMARY KEY (run_id, step_key)
) STRICT, WITHOUT ROWID;

-- Serves the emission.
CREATE INDEX workflow_event_waits_event ON workflow_event_waits (name, key, run_id);

-- Steps that have a seat of a limit, or wait for one. A seat is held while the run is running under
-- the epoch that took it. A row exists from the first question of an attempt until the attempt or
-- the run ends.
CREATE TABLE workflow_seats (
    run_id     TEXT    NOT NULL,
    step_key   TEXT    NOT NULL,
    limit_name TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    asked_at   INTEGER NOT NULL,            -- unique in its line: steps get seats in this order
    called_at  INTEGER,                     -- when the waiting step was called to take a free seat
    asks_at    INTEGER,                     -- when the waiting step asks again by itself, because of a rate
    epoch      INTEGER,                     -- of the claim that took the seat; NULL while the step waits
    PRIMARY KEY (run_id, step_key)
) STRICT, WITHOUT ROWID;

-- Serve a line: the seats that are taken, and the steps that wait.
CREATE INDEX workflow_seats_held ON workflow_seats (limit_name, key, asked_at) WHERE epoch IS NOT NULL;
CREATE INDEX workflow_seats_waiting ON workflow_seats (limit_name, key, asked_at) WHERE epoch IS NULL;

-- Rates of limits: until when the rate of a line is used up. A row whose time has passed says the
-- same as none, so batches that use rates delete such rows.
CREATE TABLE workflow_line_rates (
    limit_name TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    used_until INTEGER NOT NULL,
    PRIMARY KEY (limit_name, key)
) STRICT, WITHOUT ROWID;

-- Serves the search for rates that are not used up any more.
CREATE INDEX workflow_line_rates_used ON workflow_line_rates (used_until);

-- Workers, whose liveness locks other workers check, the lanes that each serves (a run without a
-- worker for its lane differs from a run that waits its turn), and the retention that it declares.
CREATE TABLE workflow_workers (
    id         TEXT    NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL,
    lanes      TEXT    NOT NULL DEFAULT '[]',
    retention  TEXT    NOT NULL DEFAULT '{}'            -- per workflow, how long the worker keeps ended runs; JSON
) STRICT, WITHOUT ROWID;

-- Schedules, which start runs by the clock.
CREATE TABLE workflow_schedules (
    name         TEXT    NOT NULL PRIMARY KEY,
    revision     INTEGER NOT NULL,              -- a random number, new with each change of the row
    available_at INTEGER NOT NULL,              -- when a worker has to look: far in the future for a paused one
    input        TEXT,                         -- of the runs; NULL if the code of a worker computes it
    record       TEXT    NOT NULL               -- declaration and state, as JSON
) STRICT;

-- Serves the search for schedules that are due.
CREATE INDEX workflow_schedules_due ON workflow_schedules (available_at);

-- What operators have changed, one row per order that changed something. Rows are only added.
CREATE TABLE workflow_audit (
    id        TEXT    NOT NULL PRIMARY KEY,         -- rises with the time of the order
    at        INTEGER NOT NULL,                     -- the time of the commit
    actor     TEXT,
    verb      TEXT    NOT NULL,
    target    TEXT    NOT NULL,
    reason    TEXT,
    arguments TEXT    NOT NULL,                     -- names, ids and limits, as JSON
    outcome   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Serves the list of one target.
CREATE INDEX workflow_audit_target ON workflow_audit (target, id);

-- What was counted of the runs of a lane in a span of time. A process writes its own row of the
-- minute again and again. Old rows are folded into longer spans, over all processes.
CREATE TABLE workflow_stats (
    seconds       INTEGER NOT NULL,                     -- the length of the span: 60, 3600 or 86400
    begins_at     INTEGER NOT NULL,
    process       TEXT    NOT NULL,                     -- only zeros for a row of all processes
    queue         TEXT    NOT NULL,
    workflow_name TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    started       INTEGER NOT NULL DEFAULT 0,
    begun         INTEGER NOT NULL DEFAULT 0,           -- claimed for the first time
    succeeded     INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    canceled      INTEGER NOT NULL DEFAULT 0,
    retries       INTEGER NOT NULL DEFAULT 0,           -- of runs and of steps
    waited        INTEGER NOT NULL DEFAULT 0,           -- the sum from the start to the first claim, in microseconds
    worked        INTEGER NOT NULL DEFAULT 0,           -- the sum from the first claim to the end, in microseconds
    durations     TEXT    NOT NULL DEFAULT '[]',        -- how many of these are below 1, 2, 4 ... ms; JSON
    PRIMARY KEY (seconds, begins_at, queue, workflow_name, version, process)
) STRICT, WITHOUT ROWID;

-- Groups of alike failures: the messages of one group differ in numbers, ids and quoted text.
CREATE TABLE workflow_failures (
    workflow_name TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    step          TEXT    NOT NULL,                     -- empty if no step failed
    message       TEXT    NOT NULL,                     -- what the messages have in common
    count         INTEGER NOT NULL,
    first_at      INTEGER NOT NULL,
    last_at       INTEGER NOT NULL,
    first_version TEXT    NOT NULL,
    last_run_id   TEXT    NOT NULL,
    PRIMARY KEY (workflow_name, kind, step, message)
) STRICT, WITHOUT ROWID;

-- Serves the list, and the search for the groups that are the oldest.
CREATE INDEX workflow_failures_last ON workflow_failures (last_at);

-- Where the code of a workflow calls its steps, as the last worker has seen it that saw something
-- new. A row belongs to no run. It is kept, as lanes are.
CREATE TABLE workflow_source_lines (
    workflow_name TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    step          TEXT    NOT NULL,                     -- without scopes and the number of a repeat
    lines         TEXT    NOT NULL,                     -- file:line, several separated by commas
    PRIMARY KEY (workflow_name, version, step)
) STRICT, WITHOUT ROWID;

-- Bulk operations: one action on every run that a query finds. A worker claims an operation, and
-- changes its runs chunk by chunk, from the newest to the oldest.
CREATE TABLE workflow_bulk (
    id           TEXT    NOT NULL PRIMARY KEY,       -- rises with the time of the order
    verb         TEXT    NOT NULL,                   -- of the single order, such as run.cancel
    query        TEXT    NOT NULL,
    action       TEXT    NOT NULL,                   -- names and limits, as JSON
    payload      TEXT   ,                            -- of a signal
    actor        TEXT   ,
    reason       TEXT   ,
    upto         TEXT    NOT NULL,                   -- only runs with ids before this one are changed
    matched      INTEGER,                              -- as counted when it was ordered; NULL: more than were counted
    cursor       TEXT    NOT NULL,                   -- only runs with ids before this one are left
    done         INTEGER NOT NULL,
    skipped      INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    failures     TEXT    NOT NULL,                   -- the first runs that could not be changed, as JSON
    status       TEXT    NOT NULL,                   -- running, done or stopped
    available_at INTEGER NOT NULL,                    -- when a worker may claim it: the end of the lease, if one holds it
    worker_id    TEXT   ,
    epoch        INTEGER NOT NULL,                    -- rises with each claim
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER
) STRICT, WITHOUT ROWID;

-- Serves the search for operations that are due.
CREATE INDEX workflow_bulk_due ON workflow_bulk (available_at) WHERE status = 'running';
