//! Checks what must hold in every testbed.

use std::collections::HashSet;
use std::time::Duration;

use workflow_sdk::{RunId, StepAttempt, StepKind};

use crate::checker::{self, Evidence};
use crate::ledger::{Fact, Line};
use crate::program::Answer;
use crate::workflows::{self, NAP};

use super::{Recorded, Started, Testbed, subject};

impl Testbed {
    /// Asserts that each transaction of these ended runs had its effect exactly once and is
    /// recorded.
    pub async fn check_effects(&self, runs: &[Started]) {
        let mut effects = self.raw().await.lines("SELECT subject FROM effects ORDER BY subject", "subject").await;
        let mut recorded = Vec::new();
        for run in runs {
            let rows = self.history(run.id).await.into_iter();
            let debits = rows.filter(|row| row.kind == StepKind::Transaction && row.position.is_some());
            let debits: Vec<String> = debits.map(|row| subject(run.id, &row.step_key)).collect();
            assert_eq!(debits.len(), workflows::DEBITS, "{debits:?}");
            recorded.extend(debits);
        }
        effects.sort_unstable();
        recorded.sort_unstable();
        assert_eq!(effects, recorded, "one row of effect for each recorded transaction");
    }

    /// Asserts that the database is consistent at this moment: each effect has its record, and each
    /// record its effect.
    pub async fn check_effects_so_far(&self) {
        let lone = "SELECT count(*) FROM effects WHERE NOT EXISTS (SELECT 1 FROM step_attempts AS a
            WHERE a.run_id || '/' || a.step_key = effects.subject AND a.status = 'succeeded')";
        assert_eq!(self.raw().await.number(lone).await, 0, "effects without a record");
        let missing = "SELECT count(*) FROM step_attempts AS a WHERE a.kind = 'transaction' AND a.status = 'succeeded'
            AND NOT EXISTS (SELECT 1 FROM effects WHERE effects.subject = a.run_id || '/' || a.step_key)";
        assert_eq!(self.raw().await.number(missing).await, 0, "records without an effect");
    }

    /// Asserts that each run with a parent is recorded as a child by that parent.
    pub async fn check_children_so_far(&self) {
        let lone = "SELECT count(*) FROM workflow_runs AS r WHERE r.parent_run_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM step_attempts AS a
            WHERE a.run_id = r.parent_run_id AND a.step_key = r.parent_step_key AND a.kind = 'child')";
        assert_eq!(self.raw().await.number(lone).await, 0, "children without a record at their parent");
    }

    /// Returns the outcomes that are in the database now.
    pub async fn recorded(&self, runs: &[Started]) -> Recorded {
        let mut steps = HashSet::new();
        for run in runs {
            let outcomes = self.history(run.id).await.into_iter().filter(|row| row.position.is_some());
            steps.extend(outcomes.map(|row| subject(run.id, &row.step_key)));
        }
        Recorded { steps, lines: self.ledger.lines().len() }
    }

    /// Asserts what must hold for every run once all have ended. `dead` are the processes that were
    /// killed.
    pub async fn check(&self, runs: &[Started], dead: &[u32]) {
        self.check_beside(runs, dead, &[]).await;
    }

    /// Asserts what must hold for every run once all have ended, beside processes that were stopped
    /// and continued. Such a process may begin the body that it was about to begin when it was
    /// stopped, after another worker has taken over; its outcome is refused.
    pub async fn check_beside(&self, runs: &[Started], dead: &[u32], stopped: &[u32]) {
        let mut evidence = Evidence::of(self).await;
        evidence.keep(&runs.iter().map(|run| run.id.to_string()).collect());
        evidence.expected_answers = runs.iter().map(|run| (run.id.to_string(), Answer::Value(run.output))).collect();
        evidence.dead = dead.iter().copied().collect();
        evidence.disturbed = stopped.iter().copied().collect();
        assert_eq!(checker::violations(&evidence), []);
        for run in runs {
            assert!(evidence.runs.contains_key(&run.id.to_string()), "an acknowledged start is never lost: {run:?}");
            let history = self.history(run.id).await;
            let outcomes: Vec<&StepAttempt> = history.iter().filter(|row| row.position.is_some()).collect();
            self.check_nap(run.id, &outcomes);
        }
    }

    /// Asserts that a sleep ends once and not too early, however often its run was taken over.
    fn check_nap(&self, id: RunId, outcomes: &[&StepAttempt]) {
        let naps: Vec<_> = outcomes.iter().filter(|row| row.kind == StepKind::Sleep).collect();
        let Some(nap) = naps.first() else { return };
        assert_eq!(naps.len(), 1, "{outcomes:?}");
        let after = subject(id, "after");
        let woke = self.ledger.begins().into_iter().find(|line| line.subject == after).expect("the step after it");
        let began = u128::try_from(nap.started_at.as_micros()).expect("a time after 1970");
        // The worker's clock follows that of the database, with at most the error of one statement.
        let slack = Duration::from_millis(10);
        assert!(woke.at + slack.as_micros() >= began + NAP.as_micros(), "woke {} us after {nap:?}", woke.at - began);
    }

    /// Asserts that no body began before the outcomes that it depends on were committed: a workflow
    /// that went past a step has seen its outcome.
    pub fn check_order(&self, recorded: &Recorded) {
        for line in self.ledger.lines().into_iter().take(recorded.lines).filter(|line| line.fact == Fact::Begin) {
            let (run, step_key) = line.subject.split_once('/').expect("run and step");
            for before in workflows::before(step_key) {
                let seen = format!("{run}/{before}");
                assert!(recorded.steps.contains(&seen), "{} began, but {seen} is not recorded", line.subject);
            }
        }
    }

    /// Asserts that no body began again whose outcome was already in the database.
    pub fn check_never_again(&self, recorded: &Recorded) {
        let later = self.ledger.lines().split_off(recorded.lines);
        let again: Vec<&Line> =
            later.iter().filter(|line| line.fact == Fact::Begin && recorded.steps.contains(&line.subject)).collect();
        assert!(again.is_empty(), "recorded steps began again: {again:?}");
    }
}
