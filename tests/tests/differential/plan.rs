//! Generates batches of operations. An operation names runs and claims by numbers, which `model.rs`
//! resolves.

use proptest::prelude::*;
use proptest::sample::select;
use workflow_sdk::Priority;

/// Processes that use each database.
pub const PROCESSES: usize = 2;

/// Workers of each process.
pub const WORKERS_PER_PROCESS: usize = 2;

/// Lanes in which runs are started.
pub const LANES: usize = 3;

/// The steps that are applied to both databases, batch by batch.
pub type Plan = Vec<Step>;

/// One batch, and what happens before it.
#[derive(Clone, Debug)]
pub struct Step {
    pub before: Before,
    /// The process that commits the batch.
    pub process: usize,
    pub batch: Vec<Operation>,
}

/// An event before a batch.
#[derive(Clone, Debug)]
pub enum Before {
    Nothing,
    /// Time passes.
    Seconds(u64),
    /// Leases end, and the other process claims what is due.
    TakeOver,
    /// The other process takes this worker for dead and makes its claims due.
    ReleaseWorker(usize),
}

/// A claim of the model.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Counts claims that may hold, from the latest back; modulo their number.
    pub back: usize,
    pub validity: Validity,
}

/// How good a picked claim is.
#[derive(Clone, Copy, Debug)]
pub enum Validity {
    /// A claim that may hold.
    Recent,
    /// Any claim that was ever answered.
    Any,
    /// A claim with another epoch than was answered.
    WrongEpoch,
}

/// An instant, relative to now.
#[derive(Clone, Copy, Debug)]
pub enum When {
    Now,
    AfterSeconds(u64),
    SecondsAgo(u64),
}

/// How an attempt ends, if it has.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    Running,
    /// Ended at once, or after a while in which a running row may have been written.
    Succeeded {
        quick: bool,
    },
    Failed {
        final_: bool,
    },
}

/// The effect that is committed with an attempt.
#[derive(Clone, Copy, Debug)]
pub enum With {
    Nothing,
    Child { key: Option<u8> },
    Signal { seq: i64 },
}

/// One write.
#[derive(Clone, Debug)]
pub enum Operation {
    Start {
        key: Option<u8>,
        lane: usize,
        when: When,
        deadline: Option<u64>,
        repeats: bool,
    },
    Attempt {
        claim: Pick,
        step: u8,
        attempt: i64,
        progress: Progress,
        with: With,
    },
    End {
        claim: Pick,
        succeeds: bool,
        family: bool,
    },
    Park {
        claim: Pick,
        wakes: i64,
        until: When,
        until_deadline: bool,
        error: bool,
        reset_crashes: bool,
    },
    Claim {
        worker: usize,
        limit: Limit,
        lanes: Vec<usize>,
    },
    Crashes {
        claim: Pick,
        crashes: i64,
        is_alone: bool,
    },
    Retry {
        claim: Pick,
        until: When,
    },
    Continue {
        claim: Pick,
    },
    Fork {
        run: usize,
        before: i64,
    },
    Revive {
        run: usize,
        attempt: i64,
    },
    Pause {
        run: usize,
    },
    Resume {
        run: usize,
    },
    SetPriority {
        run: usize,
        priority: Priority,
    },
    MoveTo {
        run: usize,
        queue: &'static str,
    },
    Signal {
        run: usize,
        key: Option<u8>,
    },
    Cancel {
        run: usize,
    },
    Terminate {
        run: usize,
    },
    Delete {
        run: usize,
    },
    Expire,
    /// The worker knows of half of its claims.
    Disown {
        worker: usize,
    },
}

/// How many runs a claim may take. The contract leaves open which of several due runs a claim takes
/// beside starts, so a claim in a batch with starts takes either one or all (`model.rs`).
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    One,
    Few,
    All,
}

/// A plan of so many batches at most.
pub fn plan(batches: usize, kinds: Kinds) -> impl Strategy<Value = Plan> {
    proptest::collection::vec(step(kinds), 1..=batches)
}

/// Which writes a plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// The writes of one busy worker, so that the fast path relies on its fence cache.
    Work,
    /// Writes that the fast path takes.
    Ordinary,
    /// Every kind.
    All,
}

fn step(kinds: Kinds) -> impl Strategy<Value = Step> {
    let process = match kinds {
        Kinds::Work => prop_oneof![99 => Just(0_usize), 1 => Just(1_usize)],
        Kinds::Ordinary | Kinds::All => prop_oneof![14 => Just(0_usize), 1 => Just(1_usize)],
    };
    let before = match kinds {
        Kinds::Work => prop_oneof![98 => Just(Before::Nothing), 2 => before()].boxed(),
        Kinds::Ordinary | Kinds::All => before().boxed(),
    };
    let batch = match kinds {
        Kinds::Work => work(),
        Kinds::Ordinary => batch_of(ordinary().boxed()),
        Kinds::All => {
            let any = prop_oneof![2 => ordinary(), 1 => special()];
            prop_oneof![1 => batch_of(ordinary().boxed()), 1 => batch_of(any.boxed())].boxed()
        }
    };
    (before, process, batch).prop_map(|(before, process, batch)| Step { before, process, batch })
}

/// Mostly one write, or some; now and then enough for the locks of workers on the slow path.
fn batch_of(operation: BoxedStrategy<Operation>) -> BoxedStrategy<Vec<Operation>> {
    use proptest::collection::vec;
    prop_oneof![
        2 => vec(operation.clone(), 1..=1),
        5 => vec(operation.clone(), 2..=6),
        1 => vec(operation, 20..=40),
    ]
    .boxed()
}

/// New runs, or attempts and ends of claimed ones, mostly with a claim.
fn work() -> BoxedStrategy<Vec<Operation>> {
    use proptest::collection::vec;
    let new_run = || Operation::Start { key: None, lane: 0, when: When::Now, deadline: None, repeats: false };
    // Ends take older claims than attempts, because the slow path applies both for one run.
    let attempt = (0_usize..6, 0_u8..4, progress()).prop_map(|(back, step, progress)| Operation::Attempt {
        claim: Pick { back, validity: Validity::Recent },
        step,
        attempt: 1,
        progress,
        with: With::Nothing,
    });
    let end = (6_usize..9, any::<bool>()).prop_map(|(back, succeeds)| Operation::End {
        claim: Pick { back, validity: Validity::Recent },
        succeeds,
        family: false,
    });
    let claim = || vec(Just(Operation::Claim { worker: 0, limit: Limit::Few, lanes: vec![0] }), 0..=1);
    let feeding = (vec(Just(new_run()), 1..=4), claim());
    let driving = (vec(prop_oneof![4 => attempt, 1 => end], 1..=6), claim());
    prop_oneof![1 => feeding, 3 => driving].prop_map(|(writes, claim)| [writes, claim].concat()).boxed()
}

fn before() -> impl Strategy<Value = Before> {
    prop_oneof![
        24 => Just(Before::Nothing),
        4 => (1_u64..8).prop_map(Before::Seconds),
        2 => Just(Before::TakeOver),
        1 => Just(Before::Seconds(31)),
        1 => (0..PROCESSES * WORKERS_PER_PROCESS).prop_map(Before::ReleaseWorker),
    ]
}

fn ordinary() -> impl Strategy<Value = Operation> {
    prop_oneof![
        5 => start(),
        9 => (pick(), 0_u8..4, 1_i64..=2, progress()).prop_map(|(claim, step, attempt, progress)| Operation::Attempt {
            claim, step, attempt, progress, with: With::Nothing,
        }),
        3 => (pick(), any::<bool>()).prop_map(|(claim, succeeds)| Operation::End { claim, succeeds, family: false }),
        2 => park(),
        4 => claim(),
    ]
}

fn special() -> impl Strategy<Value = Operation> {
    let run = 0_usize..1000;
    let with = prop_oneof![
        proptest::option::of(0_u8..4).prop_map(|key| With::Child { key }),
        (1_i64..4).prop_map(|seq| With::Signal { seq }),
    ];
    prop_oneof![
        3 => (pick(), 4_u8..8, 1_i64..=2, progress(), with).prop_map(|(claim, step, attempt, progress, with)| {
            Operation::Attempt { claim, step, attempt, progress, with }
        }),
        2 => (pick(), any::<bool>()).prop_map(|(claim, succeeds)| Operation::End { claim, succeeds, family: true }),
        1 => (pick(), when()).prop_map(|(claim, until)| Operation::Retry { claim, until }),
        1 => (pick(), 0_i64..3, any::<bool>()).prop_map(|(claim, crashes, is_alone)| Operation::Crashes {
            claim, crashes, is_alone,
        }),
        1 => pick().prop_map(|claim| Operation::Continue { claim }),
        1 => (run.clone(), 1_i64..6).prop_map(|(run, before)| Operation::Fork { run, before }),
        1 => (run.clone(), 1_i64..=2).prop_map(|(run, attempt)| Operation::Revive { run, attempt }),
        1 => run.clone().prop_map(|run| Operation::Pause { run }),
        1 => run.clone().prop_map(|run| Operation::Resume { run }),
        1 => (run.clone(), select(&Priority::ALL[..])).prop_map(|(run, priority)| Operation::SetPriority {
            run, priority,
        }),
        1 => (run.clone(), select(&["default", "slow"][..])).prop_map(|(run, queue)| Operation::MoveTo { run, queue }),
        3 => (run.clone(), proptest::option::of(0_u8..3)).prop_map(|(run, key)| Operation::Signal { run, key }),
        2 => run.clone().prop_map(|run| Operation::Cancel { run }),
        1 => run.clone().prop_map(|run| Operation::Terminate { run }),
        2 => run.prop_map(|run| Operation::Delete { run }),
        1 => Just(Operation::Expire),
        1 => (0..WORKERS_PER_PROCESS).prop_map(|worker| Operation::Disown { worker }),
    ]
}

fn start() -> impl Strategy<Value = Operation> {
    let key = proptest::option::weighted(0.3, 0_u8..12);
    let deadline = proptest::option::weighted(0.2, 0_u64..40);
    (key, 0..LANES, when(), deadline, proptest::bool::weighted(0.05))
        .prop_map(|(key, lane, when, deadline, repeats)| Operation::Start { key, lane, when, deadline, repeats })
}

fn park() -> impl Strategy<Value = Operation> {
    let flags = (any::<bool>(), proptest::bool::weighted(0.2), any::<bool>());
    (pick(), prop_oneof![4 => Just(0_i64), 1 => Just(1_i64)], when(), flags).prop_map(
        |(claim, wakes, until, (until_deadline, error, reset_crashes))| Operation::Park {
            claim,
            wakes,
            until,
            until_deadline,
            error,
            reset_crashes,
        },
    )
}

fn claim() -> impl Strategy<Value = Operation> {
    let limit = prop_oneof![1 => Just(Limit::One), 2 => Just(Limit::Few), 2 => Just(Limit::All)];
    let lanes = proptest::collection::vec(0..LANES, 1..=LANES);
    (0..WORKERS_PER_PROCESS, limit, lanes).prop_map(|(worker, limit, lanes)| Operation::Claim { worker, limit, lanes })
}

fn pick() -> impl Strategy<Value = Pick> {
    let validity = prop_oneof![14 => Just(Validity::Recent), 2 => Just(Validity::Any), 1 => Just(Validity::WrongEpoch)];
    (0_usize..12, validity).prop_map(|(back, validity)| Pick { back, validity })
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        6 => Just(When::Now),
        2 => (1_u64..40).prop_map(When::AfterSeconds),
        1 => (1_u64..40).prop_map(When::SecondsAgo),
    ]
}

fn progress() -> impl Strategy<Value = Progress> {
    prop_oneof![
        2 => Just(Progress::Running),
        6 => proptest::bool::weighted(0.8).prop_map(|quick| Progress::Succeeded { quick }),
        2 => any::<bool>().prop_map(|final_| Progress::Failed { final_ }),
    ]
}
