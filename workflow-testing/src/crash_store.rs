//! The store of an env's process. It counts the commits on the in-memory store, and the process
//! dies at one of them.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use workflow_engine::forward_store;
use workflow_engine::model::{Claim, Lane, Retention, WorkerId};
use workflow_engine::store::{AttemptWrite, LeaseSession, Outcome, StepCommit, StepTransaction, Store, StoreId, Write};
use workflow_sdk::DatabaseError;

use super::commit_log::SharedLog;

#[derive(Debug)]
pub(super) struct CrashStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) log: SharedLog,
}

impl CrashStore {
    async fn around<T: Send>(
        &self,
        _name: &'static str,
        call: impl Future<Output = Result<T, DatabaseError>> + Send,
    ) -> Result<T, DatabaseError> {
        call.await
    }
}

forward_store! {
    CrashStore {
        async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
            let number = self.log.before(writes).await;
            let outcomes = self.inner.commit(writes).await?;
            self.log.after(number, writes, &outcomes).await;
            Ok(outcomes)
        }

        async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
            let transaction = self.inner.begin(claim).await?;
            let log = Arc::clone(&self.log);
            Ok(transaction.map(|inner| Box::new(CrashTransaction { inner, log }) as Box<dyn StepTransaction>))
        }

        async fn open_lease(
            &self,
            worker: WorkerId,
            lanes: &[Lane],
            retention: &Retention,
        ) -> Result<Box<dyn LeaseSession>, DatabaseError> {
            self.inner.open_lease(worker, lanes, retention).await
        }

        /// Returns `true`, because the inner store is in memory.
        fn in_process(&self) -> bool {
            true
        }
    }
}

/// The transaction of a step. Its commit counts like any other commit.
#[derive(Debug)]
struct CrashTransaction {
    inner: Box<dyn StepTransaction>,
    log: SharedLog,
}

#[async_trait]
impl StepTransaction for CrashTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self.inner.connection()
    }

    fn database(&self) -> &'static str {
        self.inner.database()
    }

    fn store(&self) -> StoreId {
        self.inner.store()
    }

    async fn commit(self: Box<Self>, outcome: AttemptWrite) -> StepCommit {
        let writes = [Write::Attempt(outcome.clone())];
        let number = self.log.before(&writes).await;
        let committed = self.inner.commit(outcome).await;
        let answer = match committed {
            StepCommit::Committed => Outcome::Applied,
            _ => Outcome::Lost,
        };
        self.log.after(number, &writes, &[answer]).await;
        committed
    }

    async fn roll_back(self: Box<Self>) {
        self.inner.roll_back().await;
    }
}
