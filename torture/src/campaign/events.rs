//! The kind `events`: workers die while runs wait for events, and while runs and a client emit
//! them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use workflow_sdk::RunHandle;

use super::load::patiently;
use super::{Part, Report, Round, RoundOptions};
use crate::ledger::Fact;
use crate::workflows::events::{HEARD, SPOKEN, Speech, WORD, listener, speaker};

/// The number of keys of the event.
const KEYS: u64 = 3;

/// The longest time between two kills, in milliseconds.
const GAP: u64 = 300;

/// How long the last runs may take to hear their events.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    // Few programs, so that most kills hit the runs of this kind.
    let mut round = Round::begin(part, "events", RoundOptions { at_once: 6, ..RoundOptions::default() }).await;
    let mut talk = Talk::default();
    for _ in 0..count {
        for key in 0..KEYS {
            talk.listen(&mut round, key).await;
        }
        let key = round.random.u64(0..KEYS);
        talk.speak(&mut round, key).await;
        talk.emit(&mut round, key).await;
        tokio::time::sleep(Duration::from_millis(round.random.u64(20..GAP))).await;
        let victim = round.busiest();
        let was_at_work = round.kill(victim).await;
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(was_at_work);
        round.spawn();
    }
    talk.hear_out(&mut round).await;
    talk.judge(&mut round).await;
    round.finish().await
}

/// The runs of this kind, and what the client emitted.
#[derive(Default)]
struct Talk {
    listeners: Vec<RunHandle<Vec<u64>>>,
    /// Each with the number in its first event.
    speakers: Vec<(u64, RunHandle<Vec<u64>>)>,
    /// How many runs each event of the client reached, by its number.
    reached: BTreeMap<u64, u64>,
    next: u64,
}

impl Talk {
    async fn listen(&mut self, round: &mut Round, key: u64) {
        let client = round.testbed.client.clone();
        let run = patiently(|| client.start(listener, key.to_string())).await.expect("start a run");
        round.testbed.ledger.append(Fact::Started, &run.id().to_string(), 0);
        self.listeners.push(run);
    }

    async fn speak(&mut self, round: &mut Round, key: u64) {
        let (client, first) = (round.testbed.client.clone(), self.numbers(SPOKEN));
        let speech = Speech { key: key.to_string(), first };
        let run = patiently(|| client.start(speaker, speech.clone())).await.expect("start a run");
        round.testbed.ledger.append(Fact::Started, &run.id().to_string(), 0);
        self.speakers.push((first, run));
    }

    async fn emit(&mut self, round: &mut Round, key: u64) {
        let number = self.numbers(1);
        let reached = round.testbed.client.emit(WORD, key.to_string(), &number).await.expect("emit an event");
        self.reached.insert(number, reached);
    }

    /// Returns the first of so many numbers that no other event has.
    fn numbers(&mut self, count: u64) -> u64 {
        self.next += count;
        self.next - count
    }

    /// Emits events until every listener has heard enough of them, and waits for the speakers.
    async fn hear_out(&mut self, round: &mut Round) {
        let begun = Instant::now();
        while count_open(round).await > 0 && begun.elapsed() < PATIENCE {
            for key in 0..KEYS {
                self.emit(round, key).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let open = count_open(round).await;
        if open > 0 {
            round.violation("I-Live", format!("{open} runs that wait for events or emit them have not ended"));
        }
    }

    /// Checks that each event was heard by as many runs as it reached, and by each of them once.
    async fn judge(&mut self, round: &mut Round) {
        let mut heard: BTreeMap<u64, u64> = BTreeMap::new();
        for run in &self.listeners {
            let numbers = output(round, run).await;
            if numbers.len() as u64 != HEARD {
                round.violation("I-Event", format!("{} heard {numbers:?}, not {HEARD} events", run.id()));
            }
            for (place, number) in numbers.iter().enumerate() {
                *heard.entry(*number).or_default() += 1;
                if numbers[..place].contains(number) {
                    round.violation("I-Event", format!("{} heard event {number} twice", run.id()));
                }
            }
        }
        let mut reached = std::mem::take(&mut self.reached);
        for (first, run) in &self.speakers {
            reached.extend((*first..).zip(output(round, run).await));
        }
        for number in 0..self.next {
            let of = |counts: &BTreeMap<u64, u64>| counts.get(&number).copied().unwrap_or_default();
            if of(&reached) != of(&heard) {
                let (reached, heard) = (of(&reached), of(&heard));
                round.violation("I-Event", format!("event {number} reached {reached} runs, and {heard} heard it"));
            }
        }
        round.note("events", usize::try_from(self.next).unwrap_or(usize::MAX));
        round.note("events heard", heard.values().sum::<u64>().try_into().unwrap_or(usize::MAX));
    }
}

/// Returns the output of a run; nothing if it has none.
async fn output(round: &Round, run: &RunHandle<Vec<u64>>) -> Vec<u64> {
    let run = round.testbed.client.run(run.id()).await.expect("an acknowledged start is never lost");
    run.output.and_then(|output| serde_json::from_str(&output).ok()).unwrap_or_default()
}

/// Returns the number of runs of this kind that have not ended.
async fn count_open(round: &Round) -> i64 {
    let open = "SELECT count(*) FROM workflow_runs
        WHERE status IN ('pending', 'running', 'parked') AND workflow_name IN ('listener', 'speaker')";
    round.testbed.raw().await.number(open).await
}
