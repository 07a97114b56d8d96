//! Starts the runs that a testbed's workers drive. Their inputs and outputs are numbers that appear
//! in a log only if the engine logs values.

use crate::workflows;
use workflow_tests::log_secrets::SMALLEST_SECRET;

use super::{Started, Testbed};

impl Testbed {
    /// Starts this many runs of each workflow that ends without help.
    pub async fn start_mix(&self, chains: u64, fans: u64, sleepers: u64) -> Vec<Started> {
        let mut started = Vec::new();
        let handles = self.client.start_many(workflows::chain, inputs(chains)).await.expect("start chains");
        started.extend(
            handles.iter().zip(SMALLEST_SECRET..).map(|(run, n)| Started { id: run.id(), output: 10 * n + 45 }),
        );
        let handles = self.client.start_many(workflows::fan, inputs(fans)).await.expect("start fans");
        started
            .extend(handles.iter().zip(SMALLEST_SECRET..).map(|(run, n)| Started { id: run.id(), output: 5 * n + 10 }));
        let handles = self.client.start_many(workflows::sleepy, inputs(sleepers)).await.expect("start sleepers");
        started
            .extend(handles.iter().zip(SMALLEST_SECRET..).map(|(run, n)| Started { id: run.id(), output: 2 * n + 1 }));
        started
    }

    /// Starts this many runs of a map.
    pub async fn start_maps(&self, maps: u64) -> Vec<Started> {
        let handles = self.client.start_many(workflows::pages, inputs(maps)).await.expect("start maps");
        handles.iter().zip(SMALLEST_SECRET..).map(|(run, n)| Started { id: run.id(), output: 60 * n + 870 }).collect()
    }

    /// Creates the table for the effects of transactions.
    pub async fn make_effects(&self) {
        self.raw().await.execute("CREATE TABLE effects (subject TEXT NOT NULL)").await;
    }

    /// Starts this many runs of transactions.
    pub async fn start_debits(&self, count: u64) -> Vec<Started> {
        let handles = self.client.start_many(workflows::debits, inputs(count)).await.expect("start debits");
        handles.iter().zip(SMALLEST_SECRET..).map(|(run, n)| Started { id: run.id(), output: 5 * n + 10 }).collect()
    }

    /// Starts a run that waits for both gates.
    pub async fn start_gated(&self, n: u64) -> Started {
        let n = SMALLEST_SECRET + n;
        let run = self.client.start(workflows::gated, n).await.expect("start a gated run");
        Started { id: run.id(), output: n + 2 }
    }
}

/// Returns this many inputs.
fn inputs(count: u64) -> std::ops::Range<u64> {
    SMALLEST_SECRET..SMALLEST_SECRET + count
}
