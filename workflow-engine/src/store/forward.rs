//! Stores of tests in front of another one.

/// Implements [`Store`](crate::store::Store) for a type that stands in front of another store, its
/// field `inner: Arc<dyn Store>`. Import the macro by its name, because it calls itself.
///
/// The braces hold `commit`, `begin`, `open_lease` and `in_process`, and may hold what else the
/// type does differently from a default of the trait. The calls `hint`, `close` and `commit_within`
/// go straight to the other store. Every other call goes through a method of the type, which gets
/// the name of the call and the future that makes it:
///
/// ```text
/// async fn around<T: Send>(
///     &self,
///     name: &'static str,
///     call: impl Future<Output = Result<T, DatabaseError>> + Send,
/// ) -> Result<T, DatabaseError>
/// ```
#[macro_export]
macro_rules! forward_store {
    ($store:ident { $($own:tt)* }) => {
        forward_store! { @implement StatisticsStore for $store {}
            fn statistics(scan: &$crate::store::StatisticsScan) -> Vec<$crate::model::StatisticsRow>;
            fn failures() -> Vec<$crate::model::FailureRow>;
            fn run_tags(runs: &[$crate::model::RunId]) -> $crate::store::RunTags;
            fn source_lines(workflow: &str, version: &str, steps: &std::collections::BTreeSet<&str>)
                -> Vec<$crate::model::SourceLine>;
        }
        forward_store! { @implement ChangeStore for $store {}
            fn data_version() -> String;
        }
        forward_store! { @implement SystemStore for $store {}
            fn system() -> $crate::model::DatabaseView;
        }
        forward_store! { @implement WaitStore for $store {}
            fn slot_holders(queue: &str, gate: Option<&str>, limit: u32) -> Vec<$crate::model::RunId>;
            fn due_before(run: &$crate::model::Run, at_most: u32) -> u32;
            fn has_lane(queue: &str) -> bool;
            fn awaited_steps(runs: &[$crate::model::RunId])
                -> Vec<($crate::model::RunId, $crate::model::AwaitedStep)>;
        }
        forward_store! { @implement BulkStore for $store {}
            fn bulk(id: $crate::model::BulkId) -> Option<$crate::model::BulkRecord>;
            fn bulks(older_than: $crate::model::BulkId, limit: u32) -> Vec<$crate::model::BulkRecord>;
            fn next_bulk() -> Option<std::time::Duration>;
        }
        forward_store! { @implement Store for $store {
                $($own)*

                async fn hint(&self) -> Result<(), $crate::store::DatabaseError> {
                    self.inner.hint().await
                }

                async fn close(&self) {
                    self.inner.close().await;
                }

                async fn commit_within(
                    &self,
                    transaction: $crate::store::ForeignTransaction<'_>,
                    write: &$crate::store::Write,
                ) -> Result<$crate::store::Outcome, $crate::store::WithinError> {
                    self.inner.commit_within(transaction, write).await
                }
            }
            fn recorded(run: $crate::model::RunId, step_key: &str, attempt: i64) -> Option<$crate::model::StepAttempt>;
            fn now() -> $crate::model::Timestamp;
            fn next_due(lanes: &[$crate::model::Lane]) -> $crate::store::NextDue;
            fn run(id: $crate::model::RunId) -> Option<$crate::model::Run>;
            fn find(workflow: &str, key: &str) -> Option<$crate::model::RunId>;
            fn scan(scan: &$crate::store::RunScan) -> $crate::store::ScannedRuns;
            fn history(id: $crate::model::RunId) -> Vec<$crate::model::StepAttempt>;
            fn history_page(scan: &$crate::store::HistoryScan) -> Vec<$crate::store::HistoryRow>;
            fn published(id: $crate::model::RunId, name: &str) -> Option<String>;
            fn emitted(id: $crate::model::RunId, name: &str, after: i64, limit: u32)
                -> Vec<$crate::store::EmittedItem>;
            fn ended(ids: &[$crate::model::RunId]) -> Vec<$crate::store::EndedRun>;
            fn missing(ids: &[$crate::model::RunId]) -> Vec<$crate::model::RunId>;
            fn inbox(id: $crate::model::RunId, names: &[String]) -> Option<$crate::store::Inbox>;
            fn audits(list: &$crate::store::AuditList) -> $crate::store::ListedAudits;
            fn wakes(ids: &[$crate::model::RunId]) -> Vec<$crate::store::RunWakes>;
            fn approvals(list: &$crate::store::ApprovalList) -> $crate::store::ListedApprovals;
            fn schedule(name: &str) -> Option<$crate::model::StoredSchedule>;
            fn schedules(after: Option<&str>, limit: u32) -> Vec<$crate::model::StoredSchedule>;
            fn due_schedules(computed: &[String], limit: u32) -> $crate::store::DueSchedules;
            fn workers() -> Vec<$crate::store::WorkerRecord>;
            fn due_lanes(lanes: &[$crate::model::Lane]) -> Vec<$crate::model::Lane>;
            fn queues() -> Vec<$crate::model::QueueRecord>;
            fn running_in(queue: &str, at_most: u32) -> u32;
            fn waiting_in(place: $crate::store::WaitingPlace<'_>) -> u32;
            fn gate_use(queue: &str, gate: &str) -> $crate::store::GateUse;
            fn run_counts(at_most: u32) -> $crate::store::RunCounts;
            fn lanes(limit: u32) -> Vec<$crate::model::Lane>;
            fn oldest_due(queue: &str) -> Option<$crate::model::Timestamp>;
            fn gates(list: $crate::store::GateList<'_>) -> Vec<$crate::store::ListedGate>;
            fn held_runs(at_most: u32) -> $crate::store::HeldRuns;
            fn listed_seats(list: $crate::store::SeatList<'_>) -> Vec<$crate::store::ListedSeat>;
            fn seat_counts(limit: &str, at_most: u32) -> $crate::store::SeatCounts;
            fn limits() -> Vec<$crate::model::LimitRecord>;
            fn waiting_lines(after: Option<&$crate::model::SeatLine>, limit: u32) -> Vec<$crate::model::SeatLine>;
            fn seats(lines: &[(&$crate::model::SeatLine, u32)]) -> Vec<Vec<$crate::store::SeatRow>>;
            fn line_rates(lines: &[&$crate::model::SeatLine]) -> $crate::store::ReadRates;
            fn seat_waits(run: $crate::model::RunId) -> Vec<$crate::model::SeatWait>;
            fn listen() -> Box<dyn $crate::store::Listener>;
        }
    };
    (@implement $trait:ident for $store:ident { $($own:tt)* }
        $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*
    ) => {
        #[async_trait::async_trait]
        impl $crate::store::$trait for $store {
            $($own)*

            $(
                async fn $name(&self, $($argument: $type),*) -> Result<$answer, $crate::store::DatabaseError> {
                    self.around(stringify!($name), self.inner.$name($($argument),*)).await
                }
            )*
        }
    };
}
