//! A workload with a run of each kind of workflow, and the checks of its runs.

use workflow_sdk::prelude::*;
use workflow_sdk::{ErrorKind, RunFilter, RunId};
use workflow_torture::workflows::{self, GENERATIONS, PAGES};

use workflow_torture::testbed::{Recorded, Started, Testbed};

/// The runs of one testbed, by kind.
#[derive(Default)]
pub struct Workload {
    /// Runs whose outputs are known and that need no other check.
    plain: Vec<Started>,
    debits: Vec<Started>,
    emitters: Vec<Started>,
    stubborn: Vec<Started>,
    unlucky: Vec<RunId>,
    /// Runs that wait for one signal.
    waiting: Vec<RunId>,
    parents: usize,
}

impl Workload {
    /// Starts the runs of one turn: in every turn runs that wait, sleep, write in transactions and
    /// are undone, and the other kinds by turns. Kinds that reach `focus`, the name of a failpoint,
    /// start in every turn.
    pub async fn start(&mut self, testbed: &Testbed, turn: u32, focus: &str) {
        self.plain.push(testbed.start_gated(3).await);
        self.plain.extend(testbed.start_mix(0, 0, 2).await);
        self.debits.extend(testbed.start_debits(1).await);
        self.unlucky.push(testbed.client.start(workflows::unlucky, 1).await.expect("start").id());
        // Each of them parks, because no signal has been sent yet.
        let waiting = testbed.client.start_many(workflows::waiter, 0..3).await.expect("start waiters");
        self.waiting.extend(waiting.iter().map(|run| run.id()));
        self.plain.extend(waiting.iter().zip(5..).map(|(run, output)| Started { id: run.id(), output }));
        if turn == 1 || focus.starts_with("retry.") || focus == "drive.before_history" {
            let stubborn = testbed.client.start_many(workflows::Stubborn, 0..2).await.expect("start stubborn runs");
            self.stubborn.extend(stubborn.iter().zip(1..).map(|(run, output)| Started { id: run.id(), output }));
        }
        if turn == 1 || focus.starts_with("continue.") {
            let emitter = testbed.client.start(workflows::emitter, 0).await.expect("start a run that continues as new");
            self.emitters.push(Started { id: emitter.id(), output: GENERATIONS * PAGES });
        }
        match turn {
            1 => {}
            2 => self.plain.extend(testbed.start_mix(0, 1, 0).await),
            _ => {
                let parent = testbed.client.start(workflows::parent, 2).await.expect("start a parent");
                self.plain.push(Started { id: parent.id(), output: 65 });
                self.parents += 1;
            }
        }
    }

    /// Lets the remaining runs end: opens the gates and sends the signals.
    pub async fn let_end(&mut self, testbed: &Testbed) {
        for run in self.waiting.drain(..) {
            testbed.client.signal(run, "go", &5_u64).await.expect("send a signal");
        }
        testbed.open_gate("one");
        testbed.open_gate("two");
    }

    /// Returns the runs whose outcomes are kept to the end.
    fn lasting(&self) -> Vec<Started> {
        let unlucky = self.unlucky.iter().map(|id| Started { id: *id, output: 0 });
        self.plain.iter().chain(&self.debits).copied().chain(unlucky).collect()
    }

    fn all(&self) -> Vec<Started> {
        self.lasting().into_iter().chain(self.emitters.iter().chain(&self.stubborn).copied()).collect()
    }

    pub async fn recorded(&self, testbed: &Testbed) -> Recorded {
        testbed.recorded(&self.lasting()).await
    }

    pub async fn all_end(&self, testbed: &Testbed) {
        testbed.all_end(&self.all()).await;
    }

    /// Returns whether all runs have ended.
    pub async fn have_ended(&self, testbed: &Testbed) -> bool {
        let ids: Vec<RunId> = self.all().iter().map(|run| run.id).collect();
        testbed.client.store().ended(&ids).await.expect("look for ended runs").len() == ids.len()
    }

    /// Checks the runs after all have ended. `dead` are the processes in which an action happened,
    /// and `stopped` are the ones that were stopped.
    pub async fn check(&self, testbed: &Testbed, dead: &[u32], stopped: &[u32]) {
        let page = RunFilter::new().workflow("leaf").page_size(1000);
        let children = testbed.client.list(&page).await.expect("list children");
        assert_eq!(children.len(), 10 * self.parents, "each child was started once");
        let mut started = Vec::new();
        for child in children {
            let run = testbed.client.run(child.id).await.expect("read a child");
            started.push(Started { id: run.id, output: run.input.parse().expect("a number") });
        }
        let runs: Vec<Started> = started.into_iter().chain(self.plain.iter().chain(&self.debits).copied()).collect();
        testbed.check_beside(&runs, dead, stopped).await;
        testbed.check_effects(&self.debits).await;
        testbed.check_children_so_far().await;
        for started in self.emitters.iter().chain(&self.stubborn) {
            let run = testbed.client.run(started.id).await.expect("an acknowledged start is never lost");
            assert_eq!(run.output.as_deref(), Some(started.output.to_string().as_str()), "{run:?}");
            let attempts = if run.lane.workflow == "stubborn" { 3 } else { 1 };
            assert_eq!((run.status, run.attempt), (RunStatus::Succeeded, attempts), "{run:?}");
        }
        for id in &self.unlucky {
            let run = testbed.client.run(*id).await.expect("an acknowledged start is never lost");
            let error = run.error.clone().unwrap_or_else(|| panic!("the run must fail: {run:?}"));
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Application, "no luck"));
            let outcomes = testbed.history(*id).await.into_iter().filter(|row| row.position.is_some());
            let keys: Vec<String> = outcomes.map(|row| row.step_key).collect();
            assert_eq!(keys, ["one", "two", "undo-two", "undo-one"]);
        }
    }
}
