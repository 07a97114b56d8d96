#![allow(clippy::unwrap_used)]

use std::time::Duration;

use workflow_engine::model::{EventName, FullQueue, StepKind};

use super::*;

fn each() -> Vec<Explanation> {
    let at = Timestamp::from_micros(7);
    let (queue, gate) = ("mail".to_owned(), "acct-42".to_owned());
    let lane = Lane { queue: queue.clone(), workflow: "send".into(), version: "1".into() };
    let error = StoredError::new(ErrorKind::Application, "no luck").of_step("pay");
    let rate = Rate::per(Duration::from_secs(60), 5).burst(2);
    let event = Some(EventName { name: "paid".into(), key: "7".into() });
    let step = Awaited { kind: StepKind::Event, key: "e".into(), attempt: 1, since: at, event, until: Some(at) };
    let worker = WorkerId::generate();
    vec![
        Explanation::Ended { status: RunStatus::Failed, at, error: Some(error.clone()) },
        Explanation::Ended { status: RunStatus::Succeeded, at, error: None },
        Explanation::Paused { since: at, worker: Some(worker) },
        Explanation::Running { worker, since: at, steps: vec![step.clone()] },
        Explanation::Stalled { worker, since: at },
        Explanation::Scheduled { at },
        Explanation::Retrying { at, attempt: 2, error: error.clone() },
        Explanation::Diverged { at, error },
        Explanation::Waiting { until: None, on: vec![step] },
        Explanation::Suspected { at, crashes: 3 },
        Explanation::Due { since: at, workers: 2 },
        Explanation::QueuePaused { since: at, queue: queue.clone(), pause: QueuePause::new(at, "down".into()) },
        Explanation::QueueFull { since: at, queue: queue.clone(), limit: 5 },
        Explanation::QueueRate { since: at, queue: queue.clone(), rate, next_at: at },
        Explanation::GateFull { since: at, queue: queue.clone(), gate: gate.clone(), limit: 1 },
        Explanation::GateRate { since: at, queue, gate, rate, next_at: at },
        Explanation::WaitsForSeat {
            since: at,
            step: "ask".into(),
            limit: "llm".into(),
            key: "k".into(),
            concurrency: Some(1),
            rate: Some(rate),
            begins_at: None,
            taken: 1,
            ahead: 4,
        },
        Explanation::NoRoom { full: FullQueue::new("mail", None, 5) },
        Explanation::Unserved { since: at, lane: lane.clone(), served: vec![lane] },
    ]
}

#[test]
fn every_explanation_is_read_back_from_its_json() {
    for explanation in each() {
        let json = serde_json::to_string(&explanation).unwrap();
        assert!(json.starts_with(r#"{"state":""#), "{json}");
        assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), explanation, "{json}");
    }
    let json = serde_json::to_string(&Explanation::Due { since: Timestamp::from_micros(7), workers: 2 }).unwrap();
    assert_eq!(json, r#"{"state":"due","since":7,"workers":2}"#);
}
