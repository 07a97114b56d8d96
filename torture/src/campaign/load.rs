//! The load of a round: programs that are kept running.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use workflow_sdk::{CancelOutcome, Client, ClientError, RunId, SignalOutcome};

use crate::ledger::{Fact, Ledger};
use crate::program::{Answer, End, Op, Program, Shape, generate, program};

/// The load counts as stuck after no program has ended for this long. It is far above the longest
/// operation: two leases and the work.
const PATIENCE: Duration = Duration::from_secs(90);

/// The sleep of the last program, which runs alone, in milliseconds. It is long enough for the run
/// to park. Only its wake time wakes it, because nothing else happens in the database then, except
/// for what workers do once a minute.
const LAST_SLEEP: u64 = 500;

/// How long the last program may take.
const LAST_PATIENCE: Duration = Duration::from_secs(20);

/// Which programs are kept running.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The seed of the programs.
    pub seed: u64,
    /// Their size.
    pub shape: Shape,
    /// The number of concurrent programs.
    pub at_once: usize,
    /// The maximum number of programs.
    pub most: usize,
    /// The number of gates over which they are spread. Some wait behind none.
    pub gates: usize,
}

/// Programs that are kept running. Each is started, receives its signals, and is canceled if it
/// waits for that; then its result is awaited. Every reply to a client is written to the ledger at
/// once.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    driver: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    result: Mutex<LoadResult>,
    is_over: AtomicBool,
    has_started_all: AtomicBool,
    ended: AtomicUsize,
    /// The number of ended programs at the last check that found more than before, and the time of
    /// that check.
    last: Mutex<(usize, Instant)>,
}

/// The result of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadResult {
    /// The expected ends of the runs that the load started.
    pub expected_answers: BTreeMap<String, Answer>,
    /// The replies that were wrong.
    pub complaints: Vec<String>,
    /// `true` if the remaining runs did not end.
    pub gave_up: bool,
}

impl Shared {
    fn complain(&self, complaint: String) {
        self.result.lock().expect("no panic while the lock was held").complaints.push(complaint);
    }
}

impl Load {
    /// Starts a load that keeps `at_once` programs running until it is ended, or until `most` were
    /// started. The last one starts after all others have ended.
    #[must_use]
    pub fn start(client: &Client, ledger: &Ledger, options: LoadOptions) -> Self {
        let shared = Shared {
            result: Mutex::default(),
            is_over: AtomicBool::new(false),
            has_started_all: AtomicBool::new(false),
            ended: AtomicUsize::new(0),
            last: Mutex::new((0, Instant::now())),
        };
        let shared = Arc::new(shared);
        let (client, ledger) = (client.clone(), ledger.clone());
        let driver = tokio::spawn(drive(Arc::clone(&shared), client, ledger, options));
        Self { shared, driver }
    }

    /// Returns how many programs have ended.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.shared.ended.load(Ordering::Relaxed)
    }

    /// Returns `true` if all programs have been started, except the last one, which runs alone.
    #[must_use]
    pub fn has_started_all(&self) -> bool {
        self.shared.has_started_all.load(Ordering::Relaxed)
    }

    /// Returns `true` if no program has ended for so long that none will.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        let mut last = self.shared.last.lock().expect("no panic while the lock was held");
        if last.0 != self.ended() {
            *last = (self.ended(), Instant::now());
        }
        last.1.elapsed() > PATIENCE
    }

    /// Returns `true` if every program was started and has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.driver.is_finished()
    }

    /// Starts no more programs, and does not wait for the running ones.
    pub fn abandon(self) {
        self.driver.abort();
    }

    /// Starts no more programs and waits until the running ones end. Gives up once the load is
    /// stuck.
    pub async fn end(mut self) -> LoadResult {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let mut gave_up = false;
        while !gave_up && tokio::time::timeout(Duration::from_secs(1), &mut self.driver).await.is_err() {
            gave_up = self.is_stuck();
        }
        self.driver.abort();
        let result = self.shared.result.lock().expect("no panic while the lock was held");
        LoadResult { gave_up, ..result.clone() }
    }
}

async fn drive(shared: Arc<Shared>, client: Client, ledger: Ledger, options: LoadOptions) {
    let LoadOptions { seed, shape, at_once, most, gates } = options;
    let mut random = Rng::with_seed(seed);
    let permits = Arc::new(Semaphore::new(at_once));
    let mut under_way = JoinSet::new();
    let agent = |number, wanted, random| Agent {
        wanted,
        number,
        gates,
        random,
        shared: Arc::clone(&shared),
        client: client.clone(),
        ledger: ledger.clone(),
    };
    let last = most.saturating_sub(1);
    for number in 0..last {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("never closed");
        while under_way.try_join_next().is_some() {}
        if shared.is_over.load(Ordering::Relaxed) {
            break;
        }
        let agent = agent(number, generate(&mut random, shape), random.fork());
        let shared = Arc::clone(&shared);
        under_way.spawn(async move {
            agent.follow_or_complain().await;
            shared.ended.fetch_add(1, Ordering::Relaxed);
            drop(permit);
        });
    }
    shared.has_started_all.store(true, Ordering::Relaxed);
    while under_way.join_next().await.is_some() {}
    if !shared.is_over.load(Ordering::Relaxed) {
        let asleep = Program { ops: vec![Op::Sleep(0, LAST_SLEEP)], end: End::Value, start: 0 };
        let end = agent(last, asleep, random.fork()).follow_or_complain();
        if tokio::time::timeout(LAST_PATIENCE, end).await.is_err() {
            shared.complain(format!("a run that slept {LAST_SLEEP} ms alone had not ended after {LAST_PATIENCE:?}"));
        }
        shared.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts one program and does what it needs from a client.
struct Agent {
    wanted: Program,
    number: usize,
    gates: usize,
    random: Rng,
    shared: Arc<Shared>,
    client: Client,
    ledger: Ledger,
}

impl Agent {
    async fn follow_or_complain(self) {
        let shared = Arc::clone(&self.shared);
        if let Err(complaint) = self.follow().await {
            shared.complain(complaint);
        }
    }

    async fn follow(mut self) -> Result<(), String> {
        let key = format!("p{}", self.number);
        let run = patiently(|| {
            let start = self.client.start(program, self.wanted.clone()).key(&key);
            // One more than there are gates: the rest of the runs wait behind none.
            match self.number % (self.gates + 1) {
                0 => start,
                gate => start.gate(format!("gate-{gate}")),
            }
        })
        .await?;
        let (id, subject) = (run.id(), run.id().to_string());
        self.ledger.append(Fact::Started, &subject, 0);
        let answer = self.wanted.answer();
        self.shared
            .result
            .lock()
            .expect("no panic while the lock was held")
            .expected_answers
            .insert(subject.clone(), answer.clone());
        self.send_signals(id).await?;
        if answer == Answer::Canceled {
            tokio::time::sleep(Duration::from_millis(self.random.u64(0..200))).await;
            let canceled = patiently(|| self.client.cancel(id)).await?;
            let word = match canceled {
                CancelOutcome::Canceled => "canceled".to_owned(),
                CancelOutcome::Requested => "requested".to_owned(),
                CancelOutcome::Ended(status) => status.to_string(),
                other => return Err(format!("{subject}: a cancel was answered with {other:?}")),
            };
            self.ledger.append_value(Fact::Canceled, &subject, 0, &word);
        }
        let result = patiently_for_result(|| run.result()).await?;
        let word = match result {
            Ok(value) => value.to_string(),
            Err(ClientError::RunFailed { .. }) => "failed".to_owned(),
            Err(ClientError::RunCanceled { .. }) => "canceled".to_owned(),
            Err(other) => return Err(format!("{subject}: {other}")),
        };
        self.ledger.append_value(Fact::Answered, &subject, 0, &word);
        Ok(())
    }

    async fn send_signals(&mut self, id: RunId) -> Result<(), String> {
        for (number, (name, value)) in self.wanted.signals().into_iter().enumerate() {
            if self.random.bool() {
                tokio::time::sleep(Duration::from_millis(self.random.u64(0..20))).await;
            }
            let key = format!("s{number}");
            let sent = patiently(|| self.client.signal(id, name.as_str(), &value).key(&key)).await?;
            match sent {
                SignalOutcome::Accepted | SignalOutcome::Repeated(_) => {
                    self.ledger.append_value(Fact::Signaled, &id.to_string(), 0, &format!("{name}={value}"));
                }
                // A join of which another branch failed ends its run before all signals are
                // consumed.
                SignalOutcome::Finished => return Ok(()),
                other => return Err(format!("{id}: a signal was answered with {other:?}")),
            }
        }
        Ok(())
    }
}

/// Repeats a call while the database cannot be reached, as every client must. The call must be safe
/// to repeat.
pub(super) async fn patiently<T, F>(ask: impl FnMut() -> F) -> Result<T, String>
where
    F: IntoFuture<Output = Result<T, ClientError>>,
{
    patiently_for_result(ask).await?.map_err(|error| error.to_string())
}

/// Repeats a call while the database cannot be reached. Other errors are returned as the reply.
pub(super) async fn patiently_for_result<T, F>(mut ask: impl FnMut() -> F) -> Result<Result<T, ClientError>, String>
where
    F: IntoFuture<Output = Result<T, ClientError>>,
{
    let begun = Instant::now();
    loop {
        match ask().await {
            Err(error @ (ClientError::Database(_) | ClientError::TimedOut { .. })) if begun.elapsed() > PATIENCE => {
                return Err(format!("the database could not be reached for {PATIENCE:?}: {error}"));
            }
            Err(ClientError::Database(_) | ClientError::TimedOut { .. }) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            other => return Ok(other),
        }
    }
}

/// Waits for this time or until everything has ended. Returns `true` if everything has ended.
pub(super) async fn over_within(load: &Load, time: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time && !load.is_over() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    load.is_over()
}
