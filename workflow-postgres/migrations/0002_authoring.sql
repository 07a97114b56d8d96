-- Adds columns and tables for signals, children, pauses, attempts of runs and continued runs.

ALTER TABLE {schema}.workflow_runs
    ADD COLUMN attempt       bigint NOT NULL DEFAULT 1,     -- of the run: rises when a failed run is tried again
    ADD COLUMN generation    bigint NOT NULL DEFAULT 0,     -- rises when the run continues as new
    ADD COLUMN depth         bigint NOT NULL DEFAULT 0,     -- 0 for a run that the application started
    ADD COLUMN on_parent_end text COLLATE "C" CHECK (on_parent_end IN ('cancel', 'abandon')),
    ADD COLUMN paused_at     bigint,
    ADD COLUMN lone_crashes  bigint,                        -- crashes while the run was driven alone; NULL for none
    ADD COLUMN alone_epoch   bigint;                        -- the last epoch under which it was driven alone

-- Serves the claim: the runs of a lane in the order in which they are due, without finished and
-- paused ones.
DROP INDEX {schema}.workflow_runs_due;
CREATE INDEX workflow_runs_due ON {schema}.workflow_runs (queue, workflow_name, version, available_at, id)
    WHERE status IN ('pending', 'running', 'parked') AND paused_at IS NULL;

-- Serves the end of a parent: its children that have not ended.
CREATE INDEX workflow_runs_parent ON {schema}.workflow_runs (parent_run_id)
    WHERE parent_run_id IS NOT NULL AND status IN ('pending', 'running', 'parked');

-- Serves the list of approvals that wait for a decision.
CREATE INDEX step_attempts_approval ON {schema}.step_attempts (run_id, step_key)
    WHERE kind = 'approval' AND status = 'running';

-- The key makes a signal that is sent twice one signal.
ALTER TABLE {schema}.workflow_signals ADD COLUMN key text COLLATE "C";
CREATE UNIQUE INDEX workflow_signals_key ON {schema}.workflow_signals (run_id, key) WHERE key IS NOT NULL;
CREATE INDEX workflow_signals_waiting ON {schema}.workflow_signals (run_id, seq) WHERE consumed_by IS NULL;

-- The lanes that a worker serves: a run without a worker for its lane differs from a run that waits
-- its turn.
ALTER TABLE {schema}.workflow_workers ADD COLUMN lanes text NOT NULL DEFAULT '[]';
