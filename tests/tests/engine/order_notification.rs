//! The processes and observers that learn of an order.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::poll;

use workflow_engine::model::Clock;
use workflow_engine::store::Write;
use workflow_sdk::operate::{Action, OperateErrorCode, Order, OrderOutcome, Payload, StartRun};
use workflow_sdk::prelude::*;
use workflow_sdk::{DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind, RunId};
use workflow_testing::MemoryDatabase;
use workflow_tests::faulty::{Fault, FaultyStore};
use workflow_tests::{EventRecorder, Live};

fn one() -> Payload {
    Payload::from(serde_json::Value::from(1))
}

fn start() -> Action {
    Action::StartRun(Box::new(StartRun::new("unserved", one())))
}

async fn started(client: &Client) -> RunId {
    match client.operate().perform(Order::new(start())).await.unwrap().outcome {
        OrderOutcome::Started { run } => run,
        other => panic!("expected a started run, got {other:?}"),
    }
}

pub async fn observers_learn_of_ordered_starts(db: Live) {
    let events = EventRecorder::new();
    let client = db.connect().observer(events.clone()).await.unwrap();
    let run = started(&client).await;
    events.wait_for(run, "run_started").await;
    client.store().close().await;
}

/// It is not known which runs an emission whose reply was lost has reached.
pub async fn an_ordered_emission_whose_reply_was_lost_is_not_repeated(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    store.fail_next(|write| matches!(write, Write::Audited(_)), Fault::After(DatabaseErrorKind::Unreachable));
    let emit = Action::EmitEvent { name: "paid".into(), key: "7".into(), payload: one() };
    let error = client.operate().perform(Order::new(emit)).await.unwrap_err();
    assert_eq!((error.code, store.batches()), (OperateErrorCode::Unavailable, vec![1]));
}

/// On a store in memory a wait looks by itself once a day.
#[tokio::test]
async fn a_wait_of_the_process_ends_with_the_order() {
    let client = Client::in_memory(&MemoryDatabase::new(Clock::default())).await.unwrap();
    let id = started(&client).await;
    let run = client.handle::<u32>(id).await.unwrap();
    let mut wait = pin!(run.result());
    for _ in 0..1000 {
        assert!(poll!(&mut wait).is_pending());
        tokio::task::yield_now().await;
    }
    client.operate().perform(Order::new(Action::TerminateRun { run: id })).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the wait is told");
    assert!(matches!(ended, Err(ClientError::RunCanceled { .. })), "{ended:?}");
}
