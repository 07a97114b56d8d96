//! Reads that visitors share: however many pages ask for one thing at once, it is read once.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use serde::Serialize;
use workflow_sdk::operate::*;

type Answer = Result<Arc<dyn Any + Send + Sync>, OperateError>;
type Read = BoxFuture<'static, Answer>;

/// Reads through another interface. A call shares its read with the equal calls that come before
/// the read begins, so every answer is at least as new as its call.
pub(crate) struct SharedReads {
    operate: Arc<dyn Operate>,
    reads: Reads,
}

/// The reads under way, each by its call.
#[derive(Default)]
struct Reads(Mutex<HashMap<String, UnderWay>>);

/// A read that has begun, and the one that begins when it has ended. Only their callers keep them.
struct UnderWay {
    begun: WeakShared<Read>,
    next: Option<WeakShared<Read>>,
}

impl Reads {
    /// Returns the read that the call shares. `read` is dropped if there is one that has not begun.
    fn join(&self, call: String, read: impl Future<Output = Answer> + Send + 'static) -> Shared<Read> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, read| open(Some(&read.begun)).is_some() || open(read.next.as_ref()).is_some());
        let known = all.get(&call);
        let begun = known.and_then(|known| open(Some(&known.begun)));
        let next = known.and_then(|known| open(known.next.as_ref()));
        let (begun, mine) = match (begun, next) {
            (Some(_), Some(next)) => return next,
            // The next one may have begun, now that the first one has ended.
            (Some(begun), None) | (None, Some(begun)) => {
                let before = begun.clone();
                let mine = async move {
                    drop(before.await);
                    read.await
                };
                (begun, Some(mine.boxed().shared()))
            }
            (None, None) => (read.boxed().shared(), None),
        };
        let next = mine.as_ref().and_then(Shared::downgrade);
        if let Some(weak) = begun.downgrade() {
            all.insert(call, UnderWay { begun: weak, next });
        }
        mine.unwrap_or(begun)
    }
}

/// Returns a read that has a caller and no answer yet.
fn open(read: Option<&WeakShared<Read>>) -> Option<Shared<Read>> {
    read?.upgrade().filter(|read| read.peek().is_none())
}

impl SharedReads {
    pub(crate) fn over(operate: Arc<dyn Operate>) -> Arc<dyn Operate> {
        Arc::new(Self { operate, reads: Reads::default() })
    }

    async fn read<R, T, F>(
        &self,
        name: &str,
        request: R,
        read: impl Fn(Arc<dyn Operate>, R) -> F + Send,
    ) -> Result<T, OperateError>
    where
        R: Serialize + Clone + Send,
        T: Clone + Send + Sync + 'static,
        F: Future<Output = Result<T, OperateError>> + Send + 'static,
    {
        let Ok(text) = serde_json::to_string(&request) else { return read(self.operate.clone(), request).await };
        let one = read(self.operate.clone(), request.clone());
        let erased = async move { one.await.map(|answer| Arc::new(answer) as Arc<dyn Any + Send + Sync>) };
        let answer = self.reads.join(format!("{name} {text}"), erased).await?;
        match answer.downcast_ref::<T>() {
            Some(answer) => Ok(answer.clone()),
            None => read(self.operate.clone(), request).await,
        }
    }
}

impl fmt::Debug for SharedReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReads").field("operate", &self.operate).finish_non_exhaustive()
    }
}

#[async_trait]
impl OperateRuns for SharedReads {
    async fn runs(&self, list: ListRuns) -> Result<RunPage, OperateError> {
        self.read("runs", list, |operate, list| async move { operate.runs(list).await }).await
    }

    async fn run(&self, run: RunId) -> Result<RunDetail, OperateError> {
        self.read("run", run, |operate, run| async move { operate.run(run).await }).await
    }

    async fn payload(&self, run: RunId, of: PayloadOf) -> Result<StoredPayload, OperateError> {
        self.read("payload", (run, of), |operate, (run, of)| async move { operate.payload(run, of).await }).await
    }

    async fn find_runs(&self, id: &str, limit: u32) -> Result<Vec<RunSummary>, OperateError> {
        self.operate.find_runs(id, limit).await
    }

    async fn history(&self, list: ListHistory) -> Result<HistoryPage, OperateError> {
        self.read("history", list, |operate, list| async move { operate.history(list).await }).await
    }

    async fn timeline_window(&self, list: ListTimeline) -> Result<Timeline, OperateError> {
        self.read("timeline", list, |operate, list| async move { operate.timeline_window(list).await }).await
    }
}

#[async_trait]
impl OperateChanges for SharedReads {
    async fn changes(&self, list: ListChanges) -> Result<ChangePage, OperateError> {
        self.operate.changes(list).await
    }

    async fn emitted(&self, list: ListEmitted) -> Result<EmittedPage, OperateError> {
        self.operate.emitted(list).await
    }

    async fn published(&self, run: RunId, name: &str) -> Result<StoredPayload, OperateError> {
        self.operate.published(run, name).await
    }
}

#[async_trait]
impl OperateStatistics for SharedReads {
    async fn stats(&self, list: ListStats) -> Result<StatsPage, OperateError> {
        self.read("stats", list, |operate, list| async move { operate.stats(list).await }).await
    }

    async fn failures(&self, list: ListFailures) -> Result<FailurePage, OperateError> {
        self.read("failures", list, |operate, list| async move { operate.failures(list).await }).await
    }
}

#[async_trait]
impl OperateBulk for SharedReads {
    async fn bulk_preview(&self, query: &Query) -> Result<BulkPreview, OperateError> {
        self.operate.bulk_preview(query).await
    }

    async fn bulk(&self, bulk: BulkId) -> Result<BulkView, OperateError> {
        self.read("bulk", bulk, |operate, bulk| async move { operate.bulk(bulk).await }).await
    }

    async fn bulks(&self, list: ListBulks) -> Result<BulkPage, OperateError> {
        self.read("bulks", list, |operate, list| async move { operate.bulks(list).await }).await
    }
}

#[async_trait]
impl Operate for SharedReads {
    async fn counts(&self) -> Result<Counts, OperateError> {
        self.read("counts", (), |operate, ()| async move { operate.counts().await }).await
    }

    async fn queues(&self) -> Result<Vec<QueueView>, OperateError> {
        self.read("queues", (), |operate, ()| async move { operate.queues().await }).await
    }

    async fn gates(&self, list: ListGates) -> Result<GatePage, OperateError> {
        self.read("gates", list, |operate, list| async move { operate.gates(list).await }).await
    }

    async fn limits(&self) -> Result<Vec<LimitView>, OperateError> {
        self.read("limits", (), |operate, ()| async move { operate.limits().await }).await
    }

    async fn seats(&self, list: ListSeats) -> Result<SeatPage, OperateError> {
        self.read("seats", list, |operate, list| async move { operate.seats(list).await }).await
    }

    async fn workers(&self) -> Result<Vec<WorkerView>, OperateError> {
        self.read("workers", (), |operate, ()| async move { operate.workers().await }).await
    }

    async fn workflows(&self) -> Result<Vec<WorkflowView>, OperateError> {
        self.read("workflows", (), |operate, ()| async move { operate.workflows().await }).await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<SchedulePage, OperateError> {
        self.read("schedules", list, |operate, list| async move { operate.schedules(list).await }).await
    }

    async fn schedule(&self, name: &str) -> Result<ScheduleView, OperateError> {
        self.operate.schedule(name).await
    }

    async fn next_occurrences(&self, schedule: &str, count: u32) -> Result<Vec<OccurrenceView>, OperateError> {
        self.operate.next_occurrences(schedule, count).await
    }

    async fn backfill_preview(&self, backfill: BackfillSchedule) -> Result<BackfillView, OperateError> {
        self.operate.backfill_preview(backfill).await
    }

    async fn approvals(&self, list: ListApprovals) -> Result<ApprovalPage, OperateError> {
        self.read("approvals", list, |operate, list| async move { operate.approvals(list).await }).await
    }

    async fn perform(&self, order: Order) -> Result<Done, OperateError> {
        self.operate.perform(order).await
    }

    async fn audit(&self, list: ListAudit) -> Result<AuditPage, OperateError> {
        self.read("audit", list, |operate, list| async move { operate.audit(list).await }).await
    }

    async fn system(&self) -> Result<SystemView, OperateError> {
        self.read("system", (), |operate, ()| async move { operate.system().await }).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    /// Returns a read that waits for a permit, and answers how many have begun.
    fn counted(begun: &Arc<AtomicUsize>, permits: &Arc<tokio::sync::Semaphore>) -> Read {
        let (begun, permits) = (begun.clone(), permits.clone());
        async move {
            let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
            permits.acquire().await.map(tokio::sync::SemaphorePermit::forget).unwrap_or_default();
            Ok(Arc::new(number) as Arc<dyn Any + Send + Sync>)
        }
        .boxed()
    }

    fn number(answer: &Answer) -> Option<usize> {
        answer.as_ref().ok()?.downcast_ref::<usize>().copied()
    }

    #[tokio::test]
    async fn fifty_calls_cost_the_reads_of_one_page() {
        let (reads, begun) = (Reads::default(), Arc::new(AtomicUsize::new(0)));
        let permits = Arc::new(tokio::sync::Semaphore::new(0));
        let first = tokio::spawn(reads.join("runs".into(), counted(&begun, &permits)));
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // The first read may be older than what these calls are to see: they share the next one.
        let others: Vec<_> = (0..49).map(|_| reads.join("runs".into(), counted(&begun, &permits))).collect();
        permits.add_permits(9);
        assert_eq!(number(&first.await.unwrap_or_else(|error| unreachable!("{error}"))), Some(1));
        let answers = join_all(others).await;
        assert!(answers.iter().all(|answer| number(answer) == Some(2)), "{} reads", begun.load(Ordering::SeqCst));
        assert_eq!(
            number(&reads.join("runs".into(), counted(&begun, &permits)).await),
            Some(3),
            "an answer is not kept"
        );
        assert_eq!(number(&reads.join("run".into(), counted(&begun, &permits)).await), Some(4));
    }

    #[tokio::test]
    async fn a_caller_that_leaves_takes_no_read_away() {
        let (reads, begun) = (Reads::default(), Arc::new(AtomicUsize::new(0)));
        let permits = Arc::new(tokio::sync::Semaphore::new(9));
        let left = reads.join("runs".into(), counted(&begun, &permits));
        let stays = reads.join("runs".into(), counted(&begun, &permits));
        drop(left);
        assert_eq!(number(&stays.await), Some(2));
        drop(reads.join("runs".into(), counted(&begun, &permits)));
        assert_eq!(number(&reads.join("runs".into(), counted(&begun, &permits)).await), Some(3));
    }
}
