//! Claims and starts of two sessions behind limits, step by step. SQLite has one transaction that
//! writes at a time, so there is nothing to see there.

use workflow_engine::model::{
    GateLimits, Lane, LimitChange, LimitRule, NewRun, QueueChange, QueueLimits, SeatLine, WorkerId,
};
use workflow_engine::store::{ClaimRequest, Claimed, Outcome, QueueWrite, Write};
use workflow_tests::builders::{claim_by, lane_of, new_run, start, succeed};
use workflow_tests::{Database, Fixture, RawConnection, outcome, until};

use crate::limit;

const LIMIT: u32 = 2;

fn mail() -> Lane {
    lane_of("mail", "checkout", "1")
}

async fn limited(fixture: &Fixture, limits: QueueLimits) {
    let change = QueueChange::Declare(limits);
    outcome::applied(&fixture.write(Write::Queue(QueueWrite { queue: "mail".into(), change })).await);
}

async fn started(fixture: &Fixture, lane: &Lane, gate: Option<&str>, count: usize) {
    let run = || NewRun { lane: lane.clone(), gate: gate.map(Into::into), ..new_run() };
    let runs: Vec<Write> = (0..count).map(|_| start(&run())).collect();
    fixture.commit(&runs).await;
}

/// Claims from a lane of the queue `mail` as a worker does that knows of its limits and gates.
fn request_of(lane: Lane, limit: u32) -> ClaimRequest {
    let (limited, gated) = (vec!["mail".into()], vec!["mail".into()]);
    ClaimRequest { lanes: vec![lane], limited, gated, ..claim_by(WorkerId::generate(), limit) }
}

fn request() -> ClaimRequest {
    request_of(mail(), 25)
}

/// Returns the gates of the claimed runs, sorted.
fn gates(claimed: &Claimed) -> Vec<&str> {
    let mut gates: Vec<&str> = claimed.runs.iter().filter_map(|run| run.gate.as_deref()).collect();
    gates.sort_unstable();
    gates
}

/// Begins a transaction that holds the lock on this row, as another claim does.
async fn locked(fixture: &Fixture, table: &str, row: &str) -> RawConnection {
    let mut raw = fixture.raw().await;
    raw.execute(format!("BEGIN; SELECT FROM {table} WHERE {row} FOR NO KEY UPDATE")).await;
    raw
}

pub async fn a_queue_that_another_claim_counts_is_left_to_it(fixture: Fixture) {
    if fixture.database != Database::Postgres {
        return;
    }
    limited(&fixture, QueueLimits::none().concurrency(LIMIT)).await;
    started(&fixture, &mail(), None, 4).await;
    let mut other = locked(&fixture, "workflow_queues", "queue = 'mail'").await;
    assert_eq!(fixture.claim(&request()).await.runs.len(), 0, "the queue is left to the other claim");
    other.execute("ROLLBACK").await;
    assert_eq!(fixture.claim(&request()).await.runs.len(), 2);
}

pub async fn a_gate_that_another_claim_counts_is_left_to_it(fixture: Fixture) {
    if fixture.database != Database::Postgres {
        return;
    }
    limited(&fixture, QueueLimits::none().per_gate(GateLimits::none().concurrency(LIMIT))).await;
    started(&fixture, &mail(), Some("a"), 4).await;
    // From now on the gate is awake, so that the next claim looks at it without a wake.
    assert_eq!(fixture.claim(&request_of(mail(), 1)).await.runs.len(), 1);
    started(&fixture, &mail(), Some("b"), 1).await;
    let mut other = locked(&fixture, "workflow_gates", "gate = 'a'").await;
    assert_eq!(gates(&fixture.claim(&request()).await), ["b"], "the gate is left to the other claim");
    other.execute("ROLLBACK").await;
    assert_eq!(gates(&fixture.claim(&request()).await), ["a"], "one slot is left");
}

/// The batch waits for a run before it claims. Meanwhile another claim takes the free slots.
pub async fn a_claim_counts_what_was_committed_before_it_has_its_locks(fixture: Fixture) {
    if fixture.database != Database::Postgres {
        return;
    }
    limited(&fixture, QueueLimits::none().concurrency(LIMIT)).await;
    let refunds = lane_of("mail", "refund", "1");
    started(&fixture, &mail(), None, 4).await;
    started(&fixture, &refunds, None, 4).await;
    let waited_for = fixture.started().await;
    let second = fixture.second().await;
    let mut other = locked(&fixture, "workflow_runs", &format!("id = '{waited_for}'")).await;
    let mut watch = fixture.raw().await;
    let batch = [Write::Pause(waited_for), Write::Claim(request())];
    let beside = [Write::Claim(request_of(refunds, 25))];
    let meanwhile = async {
        until_a_row_is_waited_for(&mut watch).await;
        let taken = second.commit(&beside).await.expect("commit").pop().map(outcome::claimed);
        assert_eq!(taken.map(|claimed| claimed.runs.len()), Some(2));
        other.execute("COMMIT").await;
    };
    let (mut outcomes, ()) = tokio::join!(fixture.commit(&batch), meanwhile);
    let claimed = outcomes.pop().map(outcome::claimed).expect("the claim's outcome");
    assert_eq!(claimed.runs.len(), 0, "both slots were taken before the claim had the lock of its queue");
    assert_eq!(fixture.store.running_in("mail", 1000).await.expect("a count"), LIMIT);
}

/// Waits until a session that uses a table of the schema waits for a row.
async fn until_a_row_is_waited_for(watch: &mut RawConnection) {
    let waiting = "SELECT count(DISTINCT waits.pid) FROM pg_locks AS waits
                   JOIN pg_locks AS uses ON uses.pid = waits.pid
                   JOIN pg_class ON pg_class.oid = uses.relation
                   JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
                   WHERE NOT waits.granted AND waits.locktype IN ('transactionid', 'tuple')
                     AND pg_namespace.nspname = current_schema()";
    until("a session waits for a row", async || (watch.number(waiting).await > 0).then_some(())).await;
}

/// Holds up the statements that change a table in one way, each with its snapshot.
struct HeldUp {
    raw: RawConnection,
}

impl HeldUp {
    /// Holds up statements from now on. `event` is the time and the kind of the change, such as
    /// `BEFORE UPDATE`.
    async fn at(fixture: &Fixture, event: &str, table: &str) -> Self {
        let mut raw = fixture.raw().await;
        let (time, change) = event.split_once(' ').expect("a time and a kind");
        raw.execute(format!(
            "CREATE OR REPLACE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM pg_advisory_xact_lock_shared(
                     hashtext(TG_TABLE_SCHEMA::text), hashtext(TG_OP || TG_TABLE_NAME::text)
                 );
                 RETURN NULL;
             END $$;
             CREATE TRIGGER hold_up_{change} {time} {change} ON {table}
                 FOR EACH STATEMENT EXECUTE FUNCTION hold_up();
             SELECT pg_advisory_lock(hashtext(current_schema()::text), hashtext('{change}{table}'))"
        ))
        .await;
        Self { raw }
    }

    /// Waits until this many sessions are held up, or wait for the line of a limit.
    async fn until_wait(&mut self, sessions: i64) {
        let waiting = r#"SELECT count(*) FROM pg_locks AS l
            WHERE NOT l.granted AND l.locktype = 'advisory' AND l.classid::bigint IN (
                hashtext(current_schema()::text)::bigint & 4294967295,
                hashtext('"' || current_schema()::text || '"' || chr(1) || 'seats')::bigint & 4294967295
            )"#;
        let enough = async || (self.raw.number(waiting).await >= sessions).then_some(());
        until("sessions are held up", enough).await;
    }

    /// Lets the statements go on.
    async fn end(mut self) {
        self.raw.execute("SELECT pg_advisory_unlock_all()").await;
    }
}

/// Leaves a gate without a run, so that claims look at it only when they are told to.
async fn put_to_sleep(fixture: &Fixture, gate: &str) {
    started(fixture, &mail(), Some(gate), 1).await;
    let claimed = fixture.claim(&request()).await;
    assert_eq!(gates(&claimed), [gate]);
    outcome::applied(&fixture.write(succeed(claimed.runs[0].claim, "1")).await);
}

/// Leaves one run behind a gate that claims look at, and nothing that a claim has to be told.
async fn keep_awake(fixture: &Fixture, gate: &str) {
    started(fixture, &mail(), Some(gate), 2).await;
    assert_eq!(gates(&fixture.claim(&request_of(mail(), 1)).await), [gate]);
    assert_eq!(fixture.raw().await.number("SELECT count(*) FROM workflow_gate_wakes").await, 0);
}

/// The claim is held up after it has looked for runs, and after it has looked for when to look
/// again. Starts behind the gate that it has locked, and behind another one, commit meanwhile. At
/// last a start is held up before its commit, and the claim comes meanwhile.
pub async fn a_start_that_commits_during_a_claim_is_found_by_the_next_one(fixture: Fixture) {
    if fixture.database != Database::Postgres {
        return;
    }
    limited(&fixture, QueueLimits::none().per_gate(GateLimits::none().concurrency(9))).await;
    let second = fixture.second().await;
    let request = request();
    let behind = |gate: &str| start(&NewRun { lane: mail(), gate: Some(gate.into()), ..new_run() });
    for (number, table) in ["workflow_runs", "workflow_turns"].into_iter().enumerate() {
        let (asleep, awake) = (format!("asleep-{number}"), format!("awake-{number}"));
        put_to_sleep(&fixture, &asleep).await;
        keep_awake(&fixture, &awake).await;
        let mut claim_is = HeldUp::at(&fixture, "BEFORE UPDATE", table).await;
        let starts = [behind(&asleep), behind(&awake)];
        let meanwhile = async {
            claim_is.until_wait(1).await;
            second.commit(&starts).await.expect("commit");
            claim_is.end().await;
        };
        let (claimed, ()) = tokio::join!(fixture.claim(&request), meanwhile);
        assert_eq!(gates(&claimed), [awake.as_str()], "what was due before");
        let next = fixture.claim(&request).await;
        assert_eq!(gates(&next), [asleep.as_str(), awake.as_str()], "started while a claim changed {table}");
    }
    put_to_sleep(&fixture, "asleep").await;
    let mut start_is = HeldUp::at(&fixture, "AFTER INSERT", "workflow_runs").await;
    let starts = [behind("asleep")];
    let meanwhile = async {
        start_is.until_wait(1).await;
        assert_eq!(gates(&fixture.claim(&request).await), [""; 0], "the start has not committed");
        start_is.end().await;
    };
    let (started, ()) = tokio::join!(second.commit(&starts), meanwhile);
    started.expect("commit").iter().for_each(outcome::created);
    assert_eq!(gates(&fixture.claim(&request).await), ["asleep"], "committed after the claim");
}

/// The first batch is held up after it has counted the seats, and before it takes one.
pub async fn two_batches_never_give_out_one_seat(fixture: Fixture) {
    if fixture.database != Database::Postgres {
        return;
    }
    let rule = LimitChange::Declare(LimitRule::none().concurrency(1));
    outcome::applied(&fixture.write(limit::change("llm", rule)).await);
    let claims = limit::claimed(&fixture, 2).await;
    let second = fixture.second().await;
    let mut batch_is = HeldUp::at(&fixture, "BEFORE INSERT", "workflow_seats").await;
    let line = || SeatLine { limit: "llm".into(), key: "acct-42".into() };
    let (first, other) = ([limit::ask_in(line(), claims[0])], [limit::ask_in(line(), claims[1])]);
    let meanwhile = async {
        batch_is.until_wait(2).await;
        batch_is.end().await;
    };
    let (one, two, ()) = tokio::join!(fixture.commit(&first), second.commit(&other), meanwhile);
    let two = two.expect("commit");
    let given = one.iter().chain(&two).filter(|outcome| matches!(outcome, Outcome::Applied)).count();
    assert_eq!(given, 1, "one seat was given out twice: {one:?}, {two:?}");
}
