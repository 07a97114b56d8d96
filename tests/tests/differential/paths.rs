//! Random batches, each on both paths.

use std::time::Duration;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Handle;
use workflow_engine::model::Clock;
use workflow_engine::store::{Outcome, Write};
use workflow_sdk::DatabaseErrorKind;
use workflow_tests::Database;
use workflow_tests::builders::{CLOCK_START, LEASE};

use crate::model::Model;
use crate::plan::{Before, Kinds, PROCESSES, Plan, Step, WORKERS_PER_PROCESS, plan};
use crate::twins::{Path, Twin};

/// The most batches of one plan; on average a plan has half as many. SQLite uses its knowledge of
/// claims only after 16 transactions without another process.
const BATCHES_PER_PLAN: usize = 60;

pub async fn batches_of_a_worker_at_work_agree(database: Database) {
    check_plans(database, Kinds::Work);
}

pub async fn ordinary_batches_agree(database: Database) {
    check_plans(database, Kinds::Ordinary);
}

pub async fn batches_of_all_kinds_agree(database: Database) {
    check_plans(database, Kinds::All);
}

fn check_plans(database: Database, kinds: Kinds) {
    let batches = std::env::var("WORKFLOW_DIFFERENTIAL_BATCHES").ok().and_then(|text| text.parse().ok());
    let cases = batches.unwrap_or(400_u32).div_ceil(BATCHES_PER_PLAN as u32 / 2);
    // A planted bug need only be found.
    let max_shrink_time = if std::env::var_os("WORKFLOW_PLANTED").is_some() { 1 } else { 30_000 };
    let config = Config { cases, failure_persistence: None, max_shrink_time, ..Config::default() };
    // A run can be repeated: its seed is fixed, unless the environment has another.
    let seed = std::env::var("WORKFLOW_DIFFERENTIAL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let checked = tokio::task::block_in_place(|| {
        runner.run(&plan(BATCHES_PER_PLAN, kinds), |plan| Handle::current().block_on(check_plan(database, plan)))
    });
    match checked {
        Ok(()) => {}
        Err(TestError::Fail(why, plan)) => panic!("{why}\nthe shortest plan that shows it: {plan:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Commits the plan's batches on both paths and compares.
async fn check_plan(database: Database, plan: Plan) -> Result<(), TestCaseError> {
    let clock = Clock::manual(CLOCK_START);
    let mut model = Model::new(&clock);
    let mut usual = Twin::new(database, Path::Usual, &clock, model.workers()).await;
    let mut slow = Twin::new(database, Path::Slow, &clock, model.workers()).await;
    let checked = check_steps(&mut usual, &mut slow, &clock, &mut model, &plan).await;
    usual.remove().await;
    slow.remove().await;
    checked
}

async fn check_steps(
    usual: &mut Twin,
    slow: &mut Twin,
    clock: &Clock,
    model: &mut Model,
    plan: &[Step],
) -> Result<(), TestCaseError> {
    for (number, Step { before, process, batch }) in plan.iter().enumerate() {
        let other = (process + 1) % PROCESSES;
        match before {
            Before::Nothing => {}
            Before::Seconds(seconds) => clock.advance(Duration::from_secs(*seconds)),
            Before::TakeOver => {
                clock.advance(LEASE);
                let writes = [model.claim_all(other)];
                check_batch(usual, slow, model, other, &writes, number).await?;
            }
            Before::ReleaseWorker(worker) => {
                let process = (worker / WORKERS_PER_PROCESS + 1) % PROCESSES;
                let worker = model.workers()[*worker];
                let (one, two) =
                    (usual.release_worker(process, worker).await, slow.release_worker(process, worker).await);
                proptest::prop_assert_eq!(one, two, "claims of a dead worker, before batch {}", number);
            }
        }
        let writes = model.writes(*process, batch);
        if !writes.is_empty() {
            check_batch(usual, slow, model, *process, &writes, number).await?;
        }
    }
    Ok(())
}

async fn check_batch(
    usual: &mut Twin,
    slow: &mut Twin,
    model: &mut Model,
    process: usize,
    writes: &[Write],
    number: usize,
) -> Result<(), TestCaseError> {
    let (fast, slowly) = (usual.commit(process, writes).await, slow.commit(process, writes).await);
    if let Some(difference) = difference(writes, &fast, &slowly) {
        return Err(TestCaseError::fail(format!("outcomes of batch {number} differ: {difference}")));
    }
    let rows = [usual.rows().await, slow.rows().await];
    let only = |one: usize, other: usize| -> Vec<&String> {
        rows[one].iter().filter(|row| !rows[other].contains(row)).collect()
    };
    let (only_fast, only_slow) = (only(0, 1), only(1, 0));
    proptest::prop_assert!(
        only_fast.is_empty() && only_slow.is_empty() && rows[0].len() == rows[1].len(),
        "rows after batch {} differ\nonly on the fast path: {:#?}\nonly on the slow path: {:#?}",
        number,
        only_fast,
        only_slow
    );
    if let Ok(outcomes) = &fast {
        model.learn(writes, outcomes);
    }
    Ok(())
}

type Committed = Result<Vec<Outcome>, DatabaseErrorKind>;

/// The first write that was answered differently, with both answers.
fn difference(writes: &[Write], fast: &Committed, slow: &Committed) -> Option<String> {
    let (Ok(fast), Ok(slow)) = (fast, slow) else {
        let kinds = [fast, slow].map(|committed| committed.as_ref().err());
        return (kinds[0] != kinds[1]).then(|| format!("{kinds:?}"));
    };
    if fast.len() != writes.len() || slow.len() != writes.len() {
        return Some(format!("{} writes, {} and {} outcomes", writes.len(), fast.len(), slow.len()));
    }
    let texts = fast.iter().zip(slow).map(|(fast, slow)| (format!("{fast:?}"), format!("{slow:?}")));
    let differs = writes.iter().zip(texts).find(|(_, (fast, slow))| fast != slow);
    differs.map(|(write, (fast, slow))| format!("{write:?}\nfast path: {fast}\nslow path: {slow}"))
}
