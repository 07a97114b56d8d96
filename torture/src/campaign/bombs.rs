//! The kind `bombs`: runs that abort their process, beside runs with long steps.

use std::time::{Duration, Instant};

use workflow_sdk::{ErrorKind, RunId};

use super::load::patiently;
use super::{Part, Report, Round, RoundOptions};
use crate::ledger::Fact;
use crate::program::Shape;
use crate::workflows;

/// The duration of a long body of an innocent run, in milliseconds: several lives of a worker.
const LONG: u64 = 3000;

/// The number of bombs at once.
const AT_ONCE: usize = 2;

/// A bomb must have failed after so many deaths of workers that it caused or shared.
const MOST_DEATHS: usize = 10;

/// How long a bomb may live.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let shape = Shape { long: LONG, ..Shape::default() };
    let options = RoundOptions { workers: 2, at_once: 8, shape, ..RoundOptions::default() };
    let mut round = Round::begin_with(part, "bombs", options, |settings| settings.max_crashes = None).await;
    round.wait_for_work().await;
    let mut live: Vec<(RunId, Instant)> = Vec::new();
    while round.report.done < count {
        while live.len() < AT_ONCE && round.report.faults < count {
            round.report.faults += 1;
            let client = &round.testbed.client;
            let bomb = patiently(|| client.start(workflows::aborter, 0)).await.expect("start a bomb").id();
            round.testbed.ledger.append(Fact::Started, &bomb.to_string(), 0);
            live.push((bomb, Instant::now()));
        }
        round.replace_dead();
        tokio::time::sleep(Duration::from_millis(20)).await;
        for (bomb, since) in std::mem::take(&mut live) {
            match round.defused(bomb).await {
                true => round.report.done += 1,
                false if since.elapsed() > PATIENCE => {
                    round.report.done += 1;
                    round.violation("I-Live", format!("bomb {bomb} lives for more than {PATIENCE:?}"));
                }
                false => live.push((bomb, since)),
            }
        }
    }
    round.finish().await
}

impl Round {
    /// Starts a worker for each one that has died by itself.
    fn replace_dead(&mut self) {
        let mut number = 0;
        while number < self.workers.len() {
            if self.workers[number].ended().is_some() {
                let dead = self.workers.swap_remove(number);
                self.dead.push(dead);
                self.spawn();
            } else {
                number += 1;
            }
        }
    }

    /// Returns whether a bomb has ended, and checks how.
    async fn defused(&mut self, bomb: RunId) -> bool {
        let run = self.testbed.client.run(bomb).await.expect("an acknowledged start is never lost");
        if !run.status.is_terminal() {
            return false;
        }
        if run.error.as_ref().map(|error| error.kind) != Some(ErrorKind::CrashLoop) {
            self.violation("I-Answer", format!("bomb {bomb} ended otherwise: {run:?}"));
        }
        self.ledger.read();
        let subject = bomb.to_string();
        let begins = self.ledger.lines.iter().filter(|line| line.fact == Fact::Begin);
        let deaths = begins.filter(|line| line.subject.starts_with(&subject)).count();
        if deaths > MOST_DEATHS {
            self.violation("I-Live", format!("bomb {bomb} took {deaths} deaths"));
        }
        self.note("deaths", deaths);
        self.report.delivered += usize::from(deaths > 0);
        true
    }
}
