//! Triggers that note what must never happen to a row, at the moment at which it happens.

use workflow_tests::RawConnection;

// A failure loses its position when its run is tried again, and a fork begins with rows of an epoch before its first claim:
// both are what they should be.

/// What they noted, but for the crashes: those are counted, and no fault.
pub const VIOLATIONS: &str =
    "SELECT kind || ' ' || run_id || ': ' || detail AS violation FROM audit WHERE kind <> 'crash'";

const SQLITE: &str = "
CREATE TABLE audit (kind TEXT NOT NULL, run_id TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TRIGGER audit_terminal AFTER UPDATE ON workflow_runs WHEN OLD.status IN ('succeeded', 'failed', 'canceled')
BEGIN INSERT INTO audit VALUES ('terminal', OLD.id, OLD.status || ' became ' || NEW.status); END;
CREATE TRIGGER audit_epoch AFTER UPDATE ON workflow_runs WHEN NEW.epoch NOT IN (OLD.epoch, OLD.epoch + 1)
BEGIN INSERT INTO audit VALUES ('epoch', OLD.id, OLD.epoch || ' became ' || NEW.epoch); END;
CREATE TRIGGER audit_crash AFTER UPDATE ON workflow_runs WHEN NEW.crashes > OLD.crashes
BEGIN INSERT INTO audit VALUES ('crash', OLD.id, NEW.crashes); END;
CREATE TRIGGER audit_final AFTER UPDATE ON step_attempts
WHEN OLD.status <> 'running' AND NOT (OLD.status = 'failed' AND NEW.position IS NULL)
BEGIN INSERT INTO audit VALUES ('final', OLD.run_id, OLD.step_key || ' was written again'); END;
CREATE TRIGGER audit_fence_insert AFTER INSERT ON step_attempts
WHEN NOT EXISTS (SELECT 1 FROM workflow_runs WHERE id = NEW.run_id AND epoch = NEW.epoch
    AND (status = 'running' OR status = 'pending' AND epoch = 1 AND tags LIKE '%workflow.forked_from%'))
BEGIN INSERT INTO audit VALUES ('fence', NEW.run_id, NEW.step_key || ' by stale epoch ' || NEW.epoch); END;
CREATE TRIGGER audit_fence_update AFTER UPDATE ON step_attempts
WHEN OLD.status = 'running' AND NOT EXISTS (SELECT 1 FROM workflow_runs WHERE id = NEW.run_id AND epoch = NEW.epoch AND status = 'running')
BEGIN INSERT INTO audit VALUES ('fence', NEW.run_id, NEW.step_key || ' by stale epoch ' || NEW.epoch); END;
";

const POSTGRES: &str = "
CREATE TABLE {schema}.audit (kind text NOT NULL, run_id text NOT NULL, detail text NOT NULL);
CREATE FUNCTION {schema}.audit_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status IN ('succeeded', 'failed', 'canceled') THEN
        INSERT INTO {schema}.audit VALUES ('terminal', OLD.id, OLD.status || ' became ' || NEW.status);
    END IF;
    IF NEW.epoch NOT IN (OLD.epoch, OLD.epoch + 1) THEN
        INSERT INTO {schema}.audit VALUES ('epoch', OLD.id, OLD.epoch || ' became ' || NEW.epoch);
    END IF;
    IF NEW.crashes > OLD.crashes THEN
        INSERT INTO {schema}.audit VALUES ('crash', OLD.id, NEW.crashes);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_run AFTER UPDATE ON {schema}.workflow_runs
    FOR EACH ROW EXECUTE FUNCTION {schema}.audit_run();
CREATE FUNCTION {schema}.audit_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.status = 'failed' AND NEW.position IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.status <> 'running' THEN
        INSERT INTO {schema}.audit VALUES ('final', OLD.run_id, OLD.step_key || ' was written again');
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.workflow_runs AS r
                   WHERE r.id = NEW.run_id AND r.epoch = NEW.epoch
                     AND (r.status = 'running'
                          OR r.status = 'pending' AND r.epoch = 1 AND r.tags LIKE '%workflow.forked_from%')) THEN
        INSERT INTO {schema}.audit VALUES ('fence', NEW.run_id, NEW.step_key || ' by stale epoch ' || NEW.epoch);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_attempt AFTER INSERT OR UPDATE ON {schema}.step_attempts
    FOR EACH ROW EXECUTE FUNCTION {schema}.audit_attempt();
";

/// Installs them beside the tables of the engine.
pub async fn install(raw: &mut RawConnection, schema: Option<&str>) {
    match schema {
        None => raw.execute(SQLITE).await,
        Some(schema) => raw.execute(POSTGRES.replace("{schema}", schema)).await,
    }
}
