//! The application: starts runs, and signals and cancels them, until each call is acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::sleep;
use workflow_engine::model::{KeyReuse, Lane, NewRun, NewSignal, SignalKey, StartTime};
use workflow_engine::store::{Outcome, Write};
use workflow_sdk::{Client, RunId, Workflow};

use super::case::RunPlan;
use super::program::{SIGNAL, signal, simulated};
use super::world::World;
use workflow_tests::builders::CLOCK_START;

/// Returns the id of the run with this number.
pub(super) fn id_of(world: &World, number: usize) -> RunId {
    let millis = u64::try_from(CLOCK_START.as_micros() / 1000).unwrap_or(0);
    let mut tail = [0; 10];
    tail[..8].copy_from_slice(&world.case.seed.to_be_bytes());
    tail[8..].copy_from_slice(&u16::try_from(number + 1).unwrap_or(u16::MAX).to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid().into()
}

/// Runs the application.
pub(super) async fn run(world: Arc<World>, client: Client) {
    let runs = world.case.runs.iter().enumerate();
    join_all(runs.map(|(number, plan)| one(&world, &client, id_of(&world, number), plan))).await;
    world.application_ends();
    std::future::pending::<()>().await;
}

fn lane_of<W: Workflow>(_: W) -> Lane {
    Lane { queue: "default".into(), workflow: W::NAME.into(), version: W::VERSION.into() }
}

async fn one(world: &World, client: &Client, id: RunId, plan: &RunPlan) {
    sleep(Duration::from_millis(plan.start_millis)).await;
    let lane = lane_of(simulated);
    let new = NewRun {
        gate: None,
        id,
        lane,
        input: serde_json::to_string(&plan.program).expect("a program is JSON"),
        key: Some(plan.key.clone().unwrap_or_else(|| id.to_string())),
        key_reuse: KeyReuse::Never,
        single: None,
        priority: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None,
        depth: 0,
        trace: None,
    };
    acknowledged(client, Write::Start(new)).await;
    world.started(id);
    let cancel = async {
        if let Some(millis) = plan.cancel_millis {
            sleep(Duration::from_millis(millis)).await;
            acknowledged(client, Write::Cancel(id)).await;
        }
    };
    let signals = async {
        for n in 1..=plan.program.signals() {
            sleep(Duration::from_millis(plan.gap_millis)).await;
            let key = SignalKey::Given(n.to_string());
            let new = NewSignal { run_id: id, name: SIGNAL.into(), payload: signal(n).to_string(), key, limit: None };
            acknowledged(client, Write::Signal(new)).await;
        }
    };
    tokio::join!(cancel, signals);
}

/// Sends the write until it is acknowledged.
async fn acknowledged(client: &Client, write: Write) {
    loop {
        match client.executor().commit(write.clone()).await {
            Ok(Outcome::Refused(_)) | Err(_) => sleep(Duration::from_millis(100)).await,
            Ok(_) => return,
        }
    }
}
