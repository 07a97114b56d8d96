-- The tables of the engine. Times are microseconds since 1970-01-01 UTC; payloads are JSON text as
-- it was written, because JSONB refuses NUL, reorders keys and changes numbers.

-- Lanes: where runs wait, and what a worker claims from. A run and the entries of its indexes hold
-- the number of its lane. A row is never changed and never deleted. It is written by a transaction
-- of its own, before the first run of the lane (lanes.rs). Runs behind a gate have a lane of their
-- own, with a number below 0, by which the triggers know it.
CREATE TABLE {schema}.workflow_lanes (
    id            integer NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue         text    NOT NULL COLLATE "C",
    workflow_name text    NOT NULL COLLATE "C",
    version       text    NOT NULL COLLATE "C",
    gate          text    NOT NULL COLLATE "C" DEFAULT '',  -- empty for the runs behind no gate
    UNIQUE (queue, workflow_name, version, gate),
    CHECK ((id < 0) = (gate <> ''))
);

-- Gates: the parts of a queue that have limits of their own and take turns. A claim that looks at a
-- gate locks its row.
CREATE TABLE {schema}.workflow_gates (
    id     integer NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue  text    NOT NULL COLLATE "C",
    gate   text    NOT NULL COLLATE "C",
    weight bigint  NOT NULL DEFAULT 1 CHECK (weight > 0), -- how many runs it gives in one turn
    used_until bigint NOT NULL DEFAULT 0,               -- until when the rate is used up
    UNIQUE (queue, gate)
);

-- When claims look at a lane behind a gate: at open_at, which is also its place in the line. If the
-- gate was full, when one of its runs holds its slot no longer (full_until is then NULL again), but
-- at full_until at the latest, because then the lease of a run ends. Only a transaction that has
-- locked the gate writes its turns.
CREATE TABLE {schema}.workflow_turns (
    lane_id    integer NOT NULL PRIMARY KEY,
    base_id    integer NOT NULL,                        -- the lane of the same names without a gate
    gate_id    integer NOT NULL,
    open_at    bigint  NOT NULL,
    full_until bigint,
    given      bigint  NOT NULL DEFAULT 0               -- runs of the turn that goes on
) WITH (fillfactor = 70);

-- Serve the search of a claim for gates at which it is time to look.
CREATE INDEX workflow_turns_open ON {schema}.workflow_turns (base_id, open_at) WHERE full_until IS NULL;
CREATE INDEX workflow_turns_full ON {schema}.workflow_turns (base_id, full_until) WHERE full_until IS NOT NULL;

-- Serves the count of the running runs behind a gate.
CREATE INDEX workflow_turns_gate ON {schema}.workflow_turns (gate_id);

-- What the next claim has to tell the turns: a run behind a gate waits (open_at), or holds its slot
-- no longer (NULL). A row is committed together with the change of its run, and no writer of runs
-- waits for a gate.
CREATE TABLE {schema}.workflow_gate_wakes (
    id      bigint  NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane_id integer NOT NULL,
    open_at bigint
);
ALTER TABLE {schema}.workflow_gate_wakes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Queues that were declared, limited or paused. Limits are JSON, as the program wrote them.
CREATE TABLE {schema}.workflow_queues (
    queue        text   NOT NULL COLLATE "C" PRIMARY KEY,
    declared     text,                                  -- by the worker that started last
    overridden   text,                                  -- by an operator; holds in place of the declared
    paused_at    bigint,
    pause_reason text,
    used_until   bigint NOT NULL DEFAULT 0              -- until when the rate is used up
);

-- Limits for steps that were declared or set. Rules are JSON, as the program wrote them.
CREATE TABLE {schema}.workflow_limits (
    name       text NOT NULL COLLATE "C" PRIMARY KEY,
    declared   text,                                    -- by a worker that started, or for a flow
    overridden text                                     -- by an operator; holds in place of the declared
);

-- Columns of a fixed width stand first, so that none needs padding. Columns that a claim and an end
-- change stand together: an update on the same page logs only what lies between the first and the
-- last changed byte, and the input is not among that.
CREATE TABLE {schema}.workflow_runs (
    id                  uuid    NOT NULL,
    created_at          bigint  NOT NULL,
    deadline_at         bigint,
    parent_run_id       uuid,
    depth               bigint  NOT NULL DEFAULT 0,     -- 0 for a run that the application started
    generation          bigint  NOT NULL DEFAULT 0,     -- rises when the run continues as new
    attempt             bigint  NOT NULL DEFAULT 1,     -- of the run: rises when a failed run is tried again
    crashes             bigint  NOT NULL DEFAULT 0,
    lone_crashes        bigint,                         -- crashes while the run was driven alone; NULL for none
    alone_epoch         bigint,                         -- the last epoch under which it was driven alone
    cancel_requested_at bigint,
    paused_at           bigint,
    wakes               bigint  NOT NULL DEFAULT 0,
    epoch               bigint  NOT NULL DEFAULT 0,
    available_at        bigint  NOT NULL,
    started_at          bigint,
    completed_at        bigint,
    worker_id           uuid,
    -- A row of workflow_lanes. A foreign key would lock and so write that row at each start.
    lane_id             integer NOT NULL,
    -- 0 for a run that has begun, 1 to 4 for the priority of a run that has not: in this order a
    -- claim looks for due runs.
    rank                smallint NOT NULL DEFAULT 3,
    status              text    NOT NULL COLLATE "C",
    output              text,
    error               text,
    workflow_name       text    NOT NULL COLLATE "C",   -- that of the lane, beside the key that is unique in it
    key                 text    COLLATE "C",
    single_key          text    COLLATE "C",            -- that no other run of the workflow has at the same time
    single_until        text    COLLATE "C",            -- when the run gives it up: at its 'begin' or 'end'
    parent_step_key     text    COLLATE "C",
    on_parent_end       text    COLLATE "C",            -- NULL for a run without a parent
    trace               text    COLLATE "C",            -- where in a distributed trace the run was started
    tags                text    NOT NULL DEFAULT '{}',
    input               text    NOT NULL,
    -- A run is written again when it is claimed and when it ends, and each time its id gets a
    -- further entry. The fill factor leaves room for these; otherwise pages are split.
    PRIMARY KEY (id) WITH (fillfactor = 50),
    CHECK (status IN ('pending', 'running', 'parked', 'succeeded', 'failed', 'canceled')),
    CHECK (on_parent_end IN ('cancel', 'abandon')),
    CHECK (single_until IN ('begin', 'end')),
    CHECK (rank BETWEEN 0 AND 4)
);

-- Every claim, renewal and end leaves a dead row behind. With the server's default, a vacuum after
-- a fifth of the table, the dead rows of a large table would slow down every claim.
ALTER TABLE {schema}.workflow_runs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- At most one run per workflow and key.
CREATE UNIQUE INDEX workflow_runs_key ON {schema}.workflow_runs (workflow_name, key) WHERE key IS NOT NULL;

-- At most one run per workflow and single key. A run gives its key up by beginning or ending, so no
-- statement has to do it.
CREATE UNIQUE INDEX workflow_runs_single ON {schema}.workflow_runs (workflow_name, single_key, single_until)
    WHERE single_key IS NOT NULL AND status IN ('pending', 'running', 'parked')
      AND (single_until = 'end' OR epoch = 0);

-- Serves the claim: the runs of a lane and rank in the order in which they are due, without
-- running, finished and paused ones.
CREATE INDEX workflow_runs_due ON {schema}.workflow_runs (lane_id, rank, available_at, id)
    WHERE status IN ('pending', 'parked') AND paused_at IS NULL;

-- Serves the claim: the running runs of a lane in the order in which their leases end. Serves the
-- take-over of a dead worker's claims, which reads the whole index, and only that worker's rows of
-- the table. A run stands in one of these two indexes, because both are written at each claim.
CREATE INDEX workflow_runs_running ON {schema}.workflow_runs (lane_id, available_at, id, worker_id)
    WHERE status = 'running';

-- Serve lists and counts: the runs that are parked, that are parked with an error, that are paused,
-- and that failed or were canceled, by id. Ids sort by time. A run that only starts, runs and
-- succeeds stands in none of these.
CREATE INDEX workflow_runs_parked ON {schema}.workflow_runs (id) WHERE status = 'parked';
CREATE INDEX workflow_runs_stuck ON {schema}.workflow_runs (id) WHERE status = 'parked' AND error IS NOT NULL;
CREATE INDEX workflow_runs_paused ON {schema}.workflow_runs (id) WHERE paused_at IS NOT NULL;
CREATE INDEX workflow_runs_failed ON {schema}.workflow_runs (id) WHERE status IN ('failed', 'canceled');

-- A trigger, so that no statement that changes runs can forget the gates.
CREATE FUNCTION {schema}.workflow_wake_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.workflow_gate_wakes (lane_id, open_at)
    VALUES (NEW.lane_id, NEW.available_at);
    RETURN NULL;
END $$;
CREATE FUNCTION {schema}.workflow_free_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.workflow_gate_wakes (lane_id) VALUES (NEW.lane_id);
    RETURN NULL;
END $$;
CREATE TRIGGER workflow_runs_wait AFTER INSERT ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.lane_id < 0 AND NEW.status IN ('pending', 'parked') AND NEW.paused_at IS NULL)
    EXECUTE FUNCTION {schema}.workflow_wake_gate();
CREATE TRIGGER workflow_runs_wait_again AFTER UPDATE OF status, available_at, paused_at ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.lane_id < 0 AND NEW.status IN ('pending', 'parked') AND NEW.paused_at IS NULL)
    EXECUTE FUNCTION {schema}.workflow_wake_gate();
CREATE TRIGGER workflow_runs_free AFTER UPDATE OF status ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.lane_id < 0 AND OLD.status = 'running' AND NEW.status <> 'running')
    EXECUTE FUNCTION {schema}.workflow_free_gate();
-- Claims look at a gate when the first lease of a running run ends. They must look sooner if the
-- worker dies, and again if the lease may have ended during a pause.
CREATE FUNCTION {schema}.workflow_release_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.workflow_gate_wakes (lane_id, open_at)
    VALUES (NEW.lane_id, NEW.available_at), (NEW.lane_id, NULL);
    RETURN NULL;
END $$;
CREATE TRIGGER workflow_runs_release AFTER UPDATE OF available_at, paused_at ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.lane_id < 0 AND OLD.status = 'running' AND NEW.status = 'running'
        AND (NEW.available_at < OLD.available_at OR (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL)))
    EXECUTE FUNCTION {schema}.workflow_release_gate();

-- The tags of runs by name and value. The key serves lists of the runs with one tag.
CREATE TABLE {schema}.workflow_tags (
    run_id uuid NOT NULL,
    name   text NOT NULL COLLATE "C",
    value  text NOT NULL COLLATE "C",
    PRIMARY KEY (name, value, run_id)
);

-- Triggers, so that no statement that starts, moves or deletes runs can forget the tags. A start
-- without tags calls no function.
CREATE FUNCTION {schema}.workflow_add_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.workflow_tags (run_id, name, value)
    SELECT NEW.id, tag.key, tag.value FROM json_each_text(NEW.tags::json) AS tag;
    RETURN NULL;
END $$;
CREATE FUNCTION {schema}.workflow_remove_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {schema}.workflow_tags AS t USING json_each_text(OLD.tags::json) AS tag
    WHERE t.name = tag.key AND t.value = tag.value AND t.run_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER workflow_runs_tag AFTER INSERT ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.tags <> '{}') EXECUTE FUNCTION {schema}.workflow_add_tags();
-- Of the triggers of one event the first by name comes first: the old tags go before the new ones.
CREATE TRIGGER workflow_runs_retag AFTER UPDATE OF tags ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.tags <> OLD.tags) EXECUTE FUNCTION {schema}.workflow_remove_tags();
CREATE TRIGGER workflow_runs_tag_again AFTER UPDATE OF tags ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.tags <> OLD.tags) EXECUTE FUNCTION {schema}.workflow_add_tags();
CREATE TRIGGER workflow_runs_untag AFTER DELETE ON {schema}.workflow_runs
    FOR EACH ROW WHEN (OLD.tags <> '{}') EXECUTE FUNCTION {schema}.workflow_remove_tags();

-- Serves the expiry of runs that no worker claims.
CREATE INDEX workflow_runs_deadline ON {schema}.workflow_runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked');

-- Serves the end of a parent: its children that have not ended.
CREATE INDEX workflow_runs_parent ON {schema}.workflow_runs (parent_run_id)
    WHERE parent_run_id IS NOT NULL AND status IN ('pending', 'running', 'parked');

-- Attempts of steps, patches, published values and items of streams.
CREATE TABLE {schema}.step_attempts (
    run_id       uuid   NOT NULL,
    attempt      bigint NOT NULL,
    epoch        bigint NOT NULL,
    position     bigint,                                -- NULL for a row that is not an outcome
    started_at   bigint NOT NULL,
    completed_at bigint,
    step_key     text   NOT NULL COLLATE "C",
    kind         text   NOT NULL COLLATE "C",
    status       text   NOT NULL COLLATE "C",
    output       text,
    error        text,
    PRIMARY KEY (run_id, step_key, attempt),
    CHECK (status IN ('running', 'succeeded', 'failed'))
);

-- Serves the parts of histories that are shown: outcomes by position and attempts without one.
-- Items of streams, of which a run may have any number, stand in the primary key alone.
CREATE INDEX step_attempts_position ON {schema}.step_attempts (run_id, position, step_key, attempt)
    WHERE kind <> 'emitted';

-- Serve the list of approvals and decisions that runs wait for: of all, in its order, and of one
-- run. A decision is a wait for a signal with a name of this form.
CREATE INDEX step_attempts_asked ON {schema}.step_attempts (started_at, run_id, step_key)
    WHERE status = 'running'
      AND (kind = 'approval' OR (kind = 'signal' AND strpos('/' || step_key, '/decision:') > 0));
CREATE INDEX step_attempts_asked_of_run ON {schema}.step_attempts (run_id, step_key)
    WHERE status = 'running'
      AND (kind = 'approval' OR (kind = 'signal' AND strpos('/' || step_key, '/decision:') > 0));

-- The inboxes of runs.
CREATE TABLE {schema}.workflow_signals (
    run_id      uuid   NOT NULL,
    seq         bigint NOT NULL,
    created_at  bigint NOT NULL,
    name        text   NOT NULL COLLATE "C",
    key         text   COLLATE "C",
    consumed_by text   COLLATE "C",
    payload     text   NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- The key makes a signal that is sent twice one signal.
CREATE UNIQUE INDEX workflow_signals_key ON {schema}.workflow_signals (run_id, key) WHERE key IS NOT NULL;
CREATE INDEX workflow_signals_waiting ON {schema}.workflow_signals (run_id, seq) WHERE consumed_by IS NULL;

-- The waits of runs for events. A row exists from the commit that registers the wait until its
-- event is delivered, its timeout is recorded, or its run ends.
CREATE TABLE {schema}.workflow_event_waits (
    run_id   uuid NOT NULL,
    step_key text NOT NULL COLLATE "C",
    name     text NOT NULL COLLATE "C",
    key      text NOT NULL COLLATE "C",
    signal   text NOT NULL COLLATE "C",     -- the name of the signal that delivers the event
    PRIMARY KEY (run_id, step_key)
);

-- Serves the emission.
CREATE INDEX workflow_event_waits_event ON {schema}.workflow_event_waits (name, key, run_id);

-- Steps that have a seat of a limit, or wait for one. A seat is held while the run is running under
-- the epoch that took it. A row exists from the first question of an attempt until the attempt or
-- the run ends.
CREATE TABLE {schema}.workflow_seats (
    run_id     uuid   NOT NULL,
    epoch      bigint,                      -- of the claim that took the seat; NULL while the step waits
    asked_at   bigint NOT NULL,             -- unique in its line: steps get seats in this order
    called_at  bigint,                      -- when the waiting step was called to take a free seat
    asks_at    bigint,                      -- when the waiting step asks again by itself, because of a rate
    step_key   text   NOT NULL COLLATE "C",
    limit_name text   NOT NULL COLLATE "C",
    key        text   NOT NULL COLLATE "C",
    PRIMARY KEY (run_id, step_key)
);

-- Serve a line: the seats that are taken, and the steps that wait.
CREATE INDEX workflow_seats_held ON {schema}.workflow_seats (limit_name, key, asked_at) WHERE epoch IS NOT NULL;
CREATE INDEX workflow_seats_waiting ON {schema}.workflow_seats (limit_name, key, asked_at) WHERE epoch IS NULL;

-- Rates of limits: until when the rate of a line is used up. A row whose time has passed says the
-- same as none, so batches that use rates delete such rows.
CREATE TABLE {schema}.workflow_line_rates (
    used_until bigint NOT NULL,
    limit_name text   NOT NULL COLLATE "C",
    key        text   NOT NULL COLLATE "C",
    PRIMARY KEY (limit_name, key)
);

-- Serves the search for rates that are not used up any more.
CREATE INDEX workflow_line_rates_used ON {schema}.workflow_line_rates (used_until);

-- Workers, whose liveness locks other workers check, the lanes that each serves (a run without a
-- worker for its lane differs from a run that waits its turn), and the retention that it declares.
CREATE TABLE {schema}.workflow_workers (
    id         uuid   NOT NULL PRIMARY KEY,
    lock_key   bigint NOT NULL,
    started_at bigint NOT NULL,
    lanes      text   NOT NULL DEFAULT '[]',
    retention  text   NOT NULL DEFAULT '{}'  -- per workflow, how long the worker keeps ended runs; JSON
);

-- Schedules, which start runs by the clock.
CREATE TABLE {schema}.workflow_schedules (
    name         text    NOT NULL COLLATE "C" PRIMARY KEY,
    revision     bigint  NOT NULL,              -- a random number, new with each change of the row
    available_at bigint  NOT NULL,              -- when a worker has to look: far in the future for a paused one
    input        text,                         -- of the runs; NULL if the code of a worker computes it
    record       text    NOT NULL               -- declaration and state, as JSON
);

-- Serves the search for schedules that are due.
CREATE INDEX workflow_schedules_due ON {schema}.workflow_schedules (available_at);

-- What operators have changed, one row per order that changed something. Rows are only added.
CREATE TABLE {schema}.workflow_audit (
    id        uuid   NOT NULL PRIMARY KEY,          -- rises with the time of the order
    at        bigint NOT NULL,                      -- the time of the commit
    actor     text   COLLATE "C",
    verb      text   NOT NULL COLLATE "C",
    target    text   NOT NULL COLLATE "C",
    reason    text   COLLATE "C",
    arguments text   NOT NULL,                      -- names, ids and limits, as JSON
    outcome   text   NOT NULL
);

-- Serves the list of one target.
CREATE INDEX workflow_audit_target ON {schema}.workflow_audit (target, id);

-- What was counted of the runs of a lane in a span of time. A process writes its own row of the
-- minute again and again. Old rows are folded into longer spans, over all processes.
CREATE TABLE {schema}.workflow_stats (
    begins_at     bigint  NOT NULL,
    started       bigint  NOT NULL DEFAULT 0,
    begun         bigint  NOT NULL DEFAULT 0,           -- claimed for the first time
    succeeded     bigint  NOT NULL DEFAULT 0,
    failed        bigint  NOT NULL DEFAULT 0,
    canceled      bigint  NOT NULL DEFAULT 0,
    retries       bigint  NOT NULL DEFAULT 0,           -- of runs and of steps
    waited        bigint  NOT NULL DEFAULT 0,           -- the sum from the start to the first claim, in microseconds
    worked        bigint  NOT NULL DEFAULT 0,           -- the sum from the first claim to the end, in microseconds
    process       uuid    NOT NULL,                     -- only zeros for a row of all processes
    seconds       integer NOT NULL,                     -- the length of the span: 60, 3600 or 86400
    queue         text    NOT NULL COLLATE "C",
    workflow_name text    NOT NULL COLLATE "C",
    version       text    NOT NULL COLLATE "C",
    durations     text    NOT NULL DEFAULT '[]',        -- how many of these are below 1, 2, 4 ... ms; JSON
    PRIMARY KEY (seconds, begins_at, queue, workflow_name, version, process)
) WITH (fillfactor = 50);
ALTER TABLE {schema}.workflow_stats SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Groups of alike failures: the messages of one group differ in numbers, ids and quoted text.
CREATE TABLE {schema}.workflow_failures (
    count         bigint NOT NULL,
    first_at      bigint NOT NULL,
    last_at       bigint NOT NULL,
    last_run_id   uuid   NOT NULL,
    workflow_name text   NOT NULL COLLATE "C",
    kind          text   NOT NULL COLLATE "C",
    step          text   NOT NULL COLLATE "C",          -- empty if no step failed
    message       text   NOT NULL COLLATE "C",          -- what the messages have in common
    first_version text   NOT NULL COLLATE "C",
    PRIMARY KEY (workflow_name, kind, step, message)
);
ALTER TABLE {schema}.workflow_failures SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Serves the list, and the search for the groups that are the oldest.
CREATE INDEX workflow_failures_last ON {schema}.workflow_failures (last_at);

-- Where the code of a workflow calls its steps, as the last worker has seen it that saw something
-- new. A row belongs to no run. It is kept, as lanes are.
CREATE TABLE {schema}.workflow_source_lines (
    workflow_name text   NOT NULL COLLATE "C",
    version       text   NOT NULL COLLATE "C",
    step          text   NOT NULL COLLATE "C",          -- without scopes and the number of a repeat
    lines         text   NOT NULL COLLATE "C",          -- file:line, several separated by commas
    PRIMARY KEY (workflow_name, version, step)
);

-- Bulk operations: one action on every run that a query finds. A worker claims an operation, and
-- changes its runs chunk by chunk, from the newest to the oldest.
CREATE TABLE {schema}.workflow_bulk (
    id           uuid   NOT NULL PRIMARY KEY,       -- rises with the time of the order
    verb         text   NOT NULL,                   -- of the single order, such as run.cancel
    query        text   NOT NULL,
    action       text   NOT NULL,                   -- names and limits, as JSON
    payload      text  ,                            -- of a signal
    actor        text  ,
    reason       text  ,
    upto         uuid   NOT NULL,                   -- only runs with ids before this one are changed
    matched      bigint,                              -- as counted when it was ordered; NULL: more than were counted
    cursor       uuid   NOT NULL,                   -- only runs with ids before this one are left
    done         bigint NOT NULL,
    skipped      bigint NOT NULL,
    failed       bigint NOT NULL,
    failures     text   NOT NULL,                   -- the first runs that could not be changed, as JSON
    status       text   NOT NULL,                   -- running, done or stopped
    available_at bigint NOT NULL,                    -- when a worker may claim it: the end of the lease, if one holds it
    worker_id    uuid  ,
    epoch        bigint NOT NULL,                    -- rises with each claim
    created_at   bigint NOT NULL,
    ended_at     bigint
);

-- Serves the search for operations that are due.
CREATE INDEX workflow_bulk_due ON {schema}.workflow_bulk (available_at) WHERE status = 'running';
