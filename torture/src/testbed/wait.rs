//! Waits for facts in a testbed.

use workflow_sdk::RunId;

use crate::ledger::{Fact, Line};
use crate::worker_process::WorkerProcess;
use workflow_tests::until;

use super::{Started, Testbed, subject};

impl Testbed {
    /// Waits until every run has ended. The time limit begins again whenever a run ends.
    pub async fn all_end(&self, runs: &[Started]) {
        let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
        let mut ended = 0;
        while ended < runs.len() {
            ended = until(&format!("more than {ended} of {} runs end", runs.len()), async || {
                let now = self.client.store().ended(&ids).await.expect("look for ended runs").len();
                (now > ended || now == ids.len()).then_some(now)
            })
            .await;
        }
    }

    /// Waits until a body begins in this process.
    pub async fn begins_in(&self, worker: &WorkerProcess) -> Line {
        let pid = worker.pid();
        until(&format!("a body begins in process {pid}"), async || {
            self.ledger.begins().into_iter().find(|line| line.pid == pid)
        })
        .await
    }

    /// Waits until this many bodies have begun.
    pub async fn begun(&self, count: usize) -> Vec<Line> {
        until(&format!("{count} bodies begin"), async || {
            let begins = self.ledger.begins();
            (begins.len() >= count).then_some(begins)
        })
        .await
    }

    /// Waits until the body of this step begins, in any process.
    pub async fn step_begins(&self, id: RunId, step_key: &str) {
        let subject = subject(id, step_key);
        until(&format!("{subject} begins"), async || {
            self.ledger.begins().iter().any(|line| line.subject == subject).then_some(())
        })
        .await;
    }

    /// Waits until the ledger has this many lines.
    pub async fn lines(&self, count: usize) {
        until(&format!("{count} lines in the ledger"), async || (self.ledger.lines().len() >= count).then_some(()))
            .await;
    }

    /// Returns `true` if a body began in this process and did not end.
    pub fn is_cut(&self, pid: u32) -> bool {
        let lines = self.ledger.lines();
        let count = |what| lines.iter().filter(|line| line.pid == pid && line.fact == what).count();
        count(Fact::Begin) > count(Fact::End)
    }

    /// Returns how often the run was claimed.
    pub async fn epoch(&self, id: RunId) -> i64 {
        self.raw().await.number(format!("SELECT epoch FROM workflow_runs WHERE id = '{id}'")).await
    }

    /// Returns how often the death of a worker counted a crash of a run.
    pub async fn crashes_counted(&self) -> i64 {
        self.raw().await.number("SELECT count(*) FROM audit WHERE kind = 'crash'").await
    }
}
