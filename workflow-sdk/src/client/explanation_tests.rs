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
    let until = Some(at);
    let step = Awaited { kind: StepKind::Event, key: "e".into(), attempt: 1, since: at, event, until, signal: None };
    let worker = WorkerId::generate();
    let (held_by, ahead) = (vec![RunId::generate(), RunId::generate()], Some(Count { runs: 1_000, at_least: true }));
    let running = Some(Count { runs: 2, at_least: false });
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
        Explanation::Due { since: at, workers: 2, ahead },
        Explanation::QueuePaused { since: at, queue: queue.clone(), pause: QueuePause::new(at, "down".into()) },
        Explanation::QueueFull { since: at, queue: queue.clone(), limit: 2, running, held_by: held_by.clone(), ahead },
        Explanation::QueueRate { since: at, queue: queue.clone(), rate, next_at: at },
        Explanation::GateFull {
            since: at,
            queue: queue.clone(),
            gate: gate.clone(),
            limit: 2,
            running,
            held_by,
            ahead,
        },
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
    let due = Explanation::Due { since: Timestamp::from_micros(7), workers: 2, ahead: None };
    assert_eq!(serde_json::to_string(&due).unwrap(), r#"{"state":"due","since":7,"workers":2}"#);
}

/// A server or a program of the release before knows nothing of the runs that hold the slots.
#[test]
fn an_explanation_without_the_runs_that_are_before_it_is_understood() {
    let read = |json: &str| serde_json::from_str::<Explanation>(json).unwrap();
    let said = read(r#"{"state":"due","since":7,"workers":2}"#);
    assert!(matches!(said, Explanation::Due { workers: 2, ahead: None, .. }), "{said:?}");
    assert!(said.to_string().ends_with("2 workers serve it, and the first with room takes it"), "{said}");
    let said = read(r#"{"state":"queue_full","since":7,"queue":"mail","limit":5}"#);
    assert!(matches!(said, Explanation::QueueFull { limit: 5, running: None, ahead: None, .. }), "{said:?}");
    assert!(said.to_string().ends_with("but 5 of 5 runs of queue mail are under way"), "{said}");
    let said = read(r#"{"state":"gate_full","since":7,"queue":"mail","gate":"a","limit":1}"#);
    assert!(said.to_string().ends_with("but 1 of 1 runs behind gate a of queue mail are under way"), "{said}");
}

#[test]
fn the_sentence_names_the_runs_that_hold_the_slots() {
    let [a, b, c] = [(); 3].map(|()| RunId::generate());
    let said = |running: u32, held_by: &[RunId], ahead: u32| {
        let (running, ahead) = (Some(Count { runs: running, at_least: false }), Some(Count::up_to(1_000, ahead)));
        let (since, queue, held_by) = (Timestamp::from_micros(7), "mail".to_owned(), held_by.to_vec());
        let full = Explanation::QueueFull { since, queue, limit: 3, running, held_by, ahead };
        let text = full.to_string();
        text.split_once(", but ").unwrap().1.to_owned()
    };
    let full = "of 3 runs of queue mail are under way";
    assert_eq!(
        said(3, &[a, b, c], 0),
        format!("3 {full}: {a}, {b} and {c}; no due run of its lane and gate is before it")
    );
    assert_eq!(
        said(5, &[a, b, c], 1),
        format!("5 {full}: {a}, {b}, {c} and 2 more; 1 due run of its lane and gate is before it")
    );
    assert_eq!(said(3, &[a], 27), format!("3 {full}: {a} and 2 more; 27 due runs of its lane and gate are before it"));
    // The slots were given back between two reads.
    assert_eq!(said(3, &[], 1_001), format!("3 {full}; 1000+ due runs of its lane and gate are before it"));
}
