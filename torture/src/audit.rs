//! Triggers that record what happens to rows at the moment at which it happens: events that must
//! never happen, and facts that a [checker](crate::checker) compares with the ledger. The engine
//! does not know about them.
//!
//! `audit` contains violations, crashes, ends, and claims that were released before their leases
//! ended. `audit_claims` contains each claim, `audit_outcomes` each recorded outcome and each
//! child, `audit_taken` each consumed signal. Rows that a run deletes when it continues as new stay
//! in these tables.

use workflow_tests::RawConnection;

// Three changes that look wrong are allowed. A running run that is terminated, or that expires once
// its worker is forgotten, gets a new epoch, so that its worker loses it. A failed outcome loses
// its position when its run is retried. A fork begins with rows whose epoch comes before its first
// claim.

/// Selects the recorded violations. None may exist, whichever processes died.
pub const VIOLATIONS: &str = "SELECT kind || ' ' || run_id || ': ' || detail AS violation FROM audit
    WHERE kind NOT IN ('crash', 'taken', 'end', 'released')";

const SQLITE: &str = "
CREATE TABLE audit (kind TEXT NOT NULL, run_id TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE audit_claims (n INTEGER PRIMARY KEY, run_id TEXT NOT NULL, generation INTEGER NOT NULL, epoch INTEGER NOT NULL,
    worker_id TEXT);
CREATE TABLE audit_outcomes (n INTEGER PRIMARY KEY, run_id TEXT NOT NULL, generation INTEGER NOT NULL, step_key TEXT NOT NULL,
    attempt INTEGER NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, position INTEGER, epoch INTEGER NOT NULL, output TEXT,
    started_at INTEGER NOT NULL, completed_at INTEGER);
CREATE TABLE audit_taken (n INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq INTEGER NOT NULL, name TEXT NOT NULL,
    payload TEXT NOT NULL, consumed_by TEXT NOT NULL);
CREATE TRIGGER audit_terminal AFTER UPDATE ON workflow_runs WHEN OLD.status IN ('succeeded', 'failed', 'canceled')
BEGIN INSERT INTO audit VALUES ('terminal', OLD.id, OLD.status || ' became ' || NEW.status); END;
CREATE TRIGGER audit_end AFTER UPDATE ON workflow_runs
WHEN OLD.status IN ('pending', 'running', 'parked') AND NEW.status IN ('succeeded', 'failed', 'canceled')
BEGIN INSERT INTO audit VALUES ('end', OLD.id, NEW.status); END;
CREATE TRIGGER audit_status AFTER UPDATE ON workflow_runs
WHEN OLD.status IN ('pending', 'parked') AND NEW.status <> OLD.status AND NEW.status NOT IN ('running', 'failed', 'canceled')
BEGIN INSERT INTO audit VALUES ('status', OLD.id, OLD.status || ' became ' || NEW.status); END;
CREATE TRIGGER audit_time AFTER UPDATE ON workflow_runs
WHEN NEW.completed_at < NEW.created_at OR NEW.started_at < NEW.created_at OR NEW.created_at <> OLD.created_at
    OR NEW.completed_at < NEW.started_at OR NEW.generation NOT IN (OLD.generation, OLD.generation + 1)
BEGIN INSERT INTO audit VALUES ('time', OLD.id, concat_ws(' ', NEW.created_at, NEW.started_at, NEW.completed_at)); END;
CREATE TRIGGER audit_run_gone AFTER DELETE ON workflow_runs
BEGIN INSERT INTO audit VALUES ('gone', OLD.id, OLD.status); END;
CREATE TRIGGER audit_epoch AFTER UPDATE ON workflow_runs
WHEN NEW.epoch NOT IN (OLD.epoch, OLD.epoch + 1) OR NEW.epoch = OLD.epoch + 1 AND NEW.status NOT IN ('running', 'canceled')
    AND NOT (NEW.epoch = 1 AND NEW.tags LIKE '%workflow.forked_from%')
    AND NOT (NEW.status = 'failed' AND NEW.error LIKE '%deadline%')
BEGIN INSERT INTO audit VALUES ('epoch', OLD.id, OLD.epoch || ' became ' || NEW.epoch); END;
CREATE TRIGGER audit_claim AFTER UPDATE ON workflow_runs WHEN NEW.epoch <> OLD.epoch
BEGIN INSERT INTO audit_claims (run_id, generation, epoch, worker_id)
    VALUES (OLD.id, NEW.generation, NEW.epoch, NEW.worker_id); END;
CREATE TRIGGER audit_crash AFTER UPDATE ON workflow_runs WHEN NEW.crashes > OLD.crashes
BEGIN INSERT INTO audit VALUES ('crash', OLD.id, NEW.crashes); END;
CREATE TRIGGER audit_taken_over AFTER UPDATE ON workflow_runs WHEN NEW.epoch = OLD.epoch + 1 AND OLD.status = 'running'
BEGIN INSERT INTO audit VALUES ('taken', OLD.id, coalesce(OLD.worker_id, 'none')); END;
CREATE TRIGGER audit_uncounted AFTER UPDATE ON workflow_runs
WHEN NEW.epoch = OLD.epoch + 1 AND NEW.status = 'running' AND NEW.crashes <> OLD.crashes
BEGIN INSERT INTO audit VALUES ('uncounted', OLD.id, OLD.status || ': ' || OLD.crashes || ' became ' || NEW.crashes); END;
CREATE TRIGGER audit_uncounted_death AFTER UPDATE ON workflow_runs
WHEN NEW.epoch = OLD.epoch AND OLD.status = 'running' AND NEW.status = 'running' AND NEW.available_at < OLD.available_at
    AND NEW.crashes <> OLD.crashes + 1
BEGIN INSERT INTO audit VALUES ('uncounted', OLD.id, 'a death: ' || OLD.crashes || ' became ' || NEW.crashes); END;
CREATE TRIGGER audit_released AFTER UPDATE ON workflow_runs
WHEN NEW.epoch = OLD.epoch AND OLD.status = 'running' AND NEW.status = 'running' AND NEW.available_at < OLD.available_at
BEGIN INSERT INTO audit VALUES ('released', OLD.id, coalesce(OLD.worker_id, 'none')); END;
CREATE TRIGGER audit_final AFTER UPDATE ON step_attempts
WHEN OLD.status <> 'running' AND NOT (OLD.status = 'failed' AND NEW.position IS NULL)
    AND OLD.kind NOT IN ('published', 'emitted')
BEGIN INSERT INTO audit VALUES ('final', OLD.run_id, OLD.step_key || ' was written again'); END;
CREATE TRIGGER audit_attempt_time AFTER UPDATE ON step_attempts WHEN NEW.completed_at < NEW.started_at
BEGIN INSERT INTO audit VALUES ('time', OLD.run_id, NEW.step_key || ' ended before it began'); END;
CREATE TRIGGER audit_fence_insert AFTER INSERT ON step_attempts
WHEN NOT EXISTS (SELECT 1 FROM workflow_runs WHERE id = NEW.run_id AND epoch = NEW.epoch
    AND (status = 'running' OR status = 'pending' AND epoch = 1 AND tags LIKE '%workflow.forked_from%'))
BEGIN INSERT INTO audit VALUES ('fence', NEW.run_id, NEW.step_key || ' by stale epoch ' || NEW.epoch); END;
CREATE TRIGGER audit_fence_update AFTER UPDATE ON step_attempts
WHEN OLD.status = 'running' AND NOT (NEW.status = 'succeeded' AND coalesce(NEW.position, NEW.output) IS NULL)
    AND NOT EXISTS (SELECT 1 FROM workflow_runs WHERE id = NEW.run_id AND epoch = NEW.epoch AND status = 'running')
BEGIN INSERT INTO audit VALUES ('fence', NEW.run_id, NEW.step_key || ' by stale epoch ' || NEW.epoch); END;
CREATE TRIGGER audit_outcome_insert AFTER INSERT ON step_attempts WHEN NEW.position IS NOT NULL OR NEW.kind = 'child'
BEGIN INSERT INTO audit_outcomes (run_id, generation, step_key, attempt, kind, status, position, epoch, output, started_at, completed_at)
    SELECT NEW.run_id, generation, NEW.step_key, NEW.attempt, NEW.kind, NEW.status, NEW.position, NEW.epoch, NEW.output,
        NEW.started_at, NEW.completed_at FROM workflow_runs WHERE id = NEW.run_id; END;
CREATE TRIGGER audit_outcome_update AFTER UPDATE ON step_attempts WHEN NEW.position IS NOT NULL
BEGIN INSERT INTO audit_outcomes (run_id, generation, step_key, attempt, kind, status, position, epoch, output, started_at, completed_at)
    SELECT NEW.run_id, generation, NEW.step_key, NEW.attempt, NEW.kind, NEW.status, NEW.position, NEW.epoch, NEW.output,
        NEW.started_at, NEW.completed_at FROM workflow_runs WHERE id = NEW.run_id; END;
CREATE TRIGGER audit_taken_twice AFTER UPDATE ON workflow_signals
WHEN OLD.consumed_by IS NOT NULL OR NEW.payload <> OLD.payload OR NEW.name <> OLD.name
BEGIN INSERT INTO audit VALUES ('signal', OLD.run_id, OLD.name || ' ' || OLD.seq || ' was written again'); END;
CREATE TRIGGER audit_taken AFTER UPDATE ON workflow_signals WHEN NEW.consumed_by IS NOT NULL
BEGIN INSERT INTO audit_taken (run_id, seq, name, payload, consumed_by)
    VALUES (NEW.run_id, NEW.seq, NEW.name, NEW.payload, NEW.consumed_by); END;
CREATE TRIGGER audit_signal_gone AFTER DELETE ON workflow_signals WHEN OLD.consumed_by IS NULL
BEGIN INSERT INTO audit VALUES ('signal', OLD.run_id, OLD.name || ' ' || OLD.seq || ' was deleted before it was consumed'); END;
";

const POSTGRES: &str = "
CREATE TABLE {schema}.audit (kind text NOT NULL, run_id text NOT NULL, detail text NOT NULL);
CREATE TABLE {schema}.audit_claims (n bigserial PRIMARY KEY, run_id text NOT NULL, generation bigint NOT NULL,
    epoch bigint NOT NULL, worker_id text);
CREATE TABLE {schema}.audit_outcomes (n bigserial PRIMARY KEY, run_id text NOT NULL, generation bigint NOT NULL,
    step_key text NOT NULL, attempt bigint NOT NULL, kind text NOT NULL, status text NOT NULL, position bigint,
    epoch bigint NOT NULL, output text, started_at bigint NOT NULL, completed_at bigint);
CREATE TABLE {schema}.audit_taken (n bigserial PRIMARY KEY, run_id text NOT NULL, seq bigint NOT NULL, name text NOT NULL,
    payload text NOT NULL, consumed_by text NOT NULL);
CREATE FUNCTION {schema}.audit_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO {schema}.audit VALUES ('gone', OLD.id, OLD.status);
        RETURN NULL;
    END IF;
    IF OLD.status IN ('succeeded', 'failed', 'canceled') THEN
        INSERT INTO {schema}.audit VALUES ('terminal', OLD.id, OLD.status || ' became ' || NEW.status);
    ELSIF NEW.status IN ('succeeded', 'failed', 'canceled') THEN
        INSERT INTO {schema}.audit VALUES ('end', OLD.id, NEW.status);
    END IF;
    IF OLD.status IN ('pending', 'parked') AND NEW.status <> OLD.status
        AND NEW.status NOT IN ('running', 'failed', 'canceled') THEN
        INSERT INTO {schema}.audit VALUES ('status', OLD.id, OLD.status || ' became ' || NEW.status);
    END IF;
    IF NEW.completed_at < NEW.created_at OR NEW.started_at < NEW.created_at OR NEW.created_at <> OLD.created_at
        OR NEW.completed_at < NEW.started_at OR NEW.generation NOT IN (OLD.generation, OLD.generation + 1) THEN
        INSERT INTO {schema}.audit VALUES
            ('time', OLD.id, concat_ws(' ', NEW.created_at, NEW.started_at, NEW.completed_at, NEW.generation));
    END IF;
    IF NEW.epoch NOT IN (OLD.epoch, OLD.epoch + 1) OR NEW.epoch = OLD.epoch + 1 AND NEW.status NOT IN ('running', 'canceled')
    AND NOT (NEW.epoch = 1 AND NEW.tags LIKE '%workflow.forked_from%')
    AND NOT (NEW.status = 'failed' AND NEW.error LIKE '%deadline%') THEN
        INSERT INTO {schema}.audit VALUES ('epoch', OLD.id, OLD.epoch || ' became ' || NEW.epoch);
    END IF;
    IF NEW.epoch <> OLD.epoch THEN
        INSERT INTO {schema}.audit_claims (run_id, generation, epoch, worker_id)
            VALUES (OLD.id, NEW.generation, NEW.epoch, NEW.worker_id);
    END IF;
    IF NEW.crashes > OLD.crashes THEN
        INSERT INTO {schema}.audit VALUES ('crash', OLD.id, NEW.crashes);
    END IF;
    IF NEW.epoch = OLD.epoch + 1 AND OLD.status = 'running' THEN
        INSERT INTO {schema}.audit VALUES ('taken', OLD.id, coalesce(OLD.worker_id::text, 'none'));
    END IF;
    IF NEW.epoch = OLD.epoch + 1 AND NEW.status = 'running' AND NEW.crashes <> OLD.crashes THEN
        INSERT INTO {schema}.audit
            VALUES ('uncounted', OLD.id, OLD.status || ': ' || OLD.crashes || ' became ' || NEW.crashes);
    END IF;
    IF NEW.epoch = OLD.epoch AND OLD.status = 'running' AND NEW.status = 'running'
        AND NEW.available_at < OLD.available_at THEN
        IF NEW.crashes <> OLD.crashes + 1 THEN
            INSERT INTO {schema}.audit
                VALUES ('uncounted', OLD.id, 'a death: ' || OLD.crashes || ' became ' || NEW.crashes);
        END IF;
        INSERT INTO {schema}.audit VALUES ('released', OLD.id, coalesce(OLD.worker_id::text, 'none'));
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION {schema}.audit_start() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO {schema}.audit_claims (run_id, generation, epoch, worker_id)
        VALUES (NEW.id, NEW.generation, NEW.epoch, NEW.worker_id);
    RETURN NULL;
END $$;
CREATE TRIGGER audit_start AFTER INSERT ON {schema}.workflow_runs
    FOR EACH ROW WHEN (NEW.status = 'running') EXECUTE FUNCTION {schema}.audit_start();
CREATE TRIGGER audit_run AFTER UPDATE OR DELETE ON {schema}.workflow_runs
    FOR EACH ROW EXECUTE FUNCTION {schema}.audit_run();
CREATE FUNCTION {schema}.audit_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position IS NOT NULL OR TG_OP = 'INSERT' AND NEW.kind = 'child' THEN
        INSERT INTO {schema}.audit_outcomes
            (run_id, generation, step_key, attempt, kind, status, position, epoch, output, started_at, completed_at)
        SELECT NEW.run_id, r.generation, NEW.step_key, NEW.attempt, NEW.kind, NEW.status, NEW.position, NEW.epoch, NEW.output,
            NEW.started_at, NEW.completed_at FROM {schema}.workflow_runs AS r WHERE r.id = NEW.run_id;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.completed_at < NEW.started_at THEN
        INSERT INTO {schema}.audit VALUES ('time', OLD.run_id, NEW.step_key || ' ended before it began');
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.status = 'failed' AND NEW.position IS NULL THEN
        RETURN NULL;
    END IF;
    -- The retry of a run ends its open waits.
    IF TG_OP = 'UPDATE' AND OLD.status = 'running' AND NEW.status = 'succeeded'
        AND NEW.position IS NULL AND NEW.output IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.status <> 'running' AND OLD.kind NOT IN ('published', 'emitted') THEN
        INSERT INTO {schema}.audit VALUES ('final', OLD.run_id, OLD.step_key || ' was written again');
    END IF;
    -- A statement that records for a claim whose lease has ended may itself claim the run anew, after it.
    -- It may also release the claim; then it has written both rows by one command.
    IF NOT EXISTS (SELECT FROM {schema}.workflow_runs AS r
                   WHERE r.id = NEW.run_id
                     AND (r.epoch = NEW.epoch OR r.epoch = NEW.epoch + 1 AND r.xmin = pg_current_xact_id()::xid)
                     AND (r.status = 'running'
                          OR r.status = 'pending' AND r.epoch = 1 AND r.tags LIKE '%workflow.forked_from%'
                          OR EXISTS (SELECT FROM {schema}.step_attempts AS a
                                     WHERE a.run_id = NEW.run_id AND a.step_key = NEW.step_key
                                       AND a.attempt = NEW.attempt AND a.xmin = r.xmin AND a.cmin = r.cmin))) THEN
        INSERT INTO {schema}.audit VALUES ('fence', NEW.run_id, NEW.step_key || ' by stale epoch ' || NEW.epoch);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_attempt AFTER INSERT OR UPDATE ON {schema}.step_attempts
    FOR EACH ROW EXECUTE FUNCTION {schema}.audit_attempt();
CREATE FUNCTION {schema}.audit_signal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.consumed_by IS NULL THEN
            INSERT INTO {schema}.audit
                VALUES ('signal', OLD.run_id, OLD.name || ' ' || OLD.seq || ' was deleted before it was consumed');
        END IF;
        RETURN NULL;
    END IF;
    IF OLD.consumed_by IS NOT NULL OR NEW.payload <> OLD.payload OR NEW.name <> OLD.name THEN
        INSERT INTO {schema}.audit VALUES ('signal', OLD.run_id, OLD.name || ' ' || OLD.seq || ' was written again');
    END IF;
    IF NEW.consumed_by IS NOT NULL THEN
        INSERT INTO {schema}.audit_taken (run_id, seq, name, payload, consumed_by)
            VALUES (NEW.run_id, NEW.seq, NEW.name, NEW.payload, NEW.consumed_by);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_signal AFTER UPDATE OR DELETE ON {schema}.workflow_signals
    FOR EACH ROW EXECUTE FUNCTION {schema}.audit_signal();
";

/// Installs the triggers and their tables beside the tables of the engine.
pub async fn install(raw: &mut RawConnection, schema: Option<&str>) {
    match schema {
        None => raw.execute(SQLITE).await,
        Some(schema) => raw.execute(POSTGRES.replace("{schema}", schema)).await,
    }
}
