//! Everything that an operator does, as requests and answers that can be serialized: a program, a
//! command line and a page use nothing else, over the database or over a network.
//!
//! Begin with [`Client::operate`](crate::Client::operate), [`ListRuns`] and the search grammar at
//! [`Query`].

mod action;
mod approvals;
mod audit;
mod blockers;
mod bulk;
mod bulk_action;
mod bulk_chunk;
mod bulk_interface;
mod change_feed;
mod change_interface;
mod change_watch;
mod changes;
mod client;
mod client_error;
mod condition;
mod counts;
mod cursor;
mod error;
mod failures;
mod history;
mod interface;
mod items;
mod limits;
mod order;
mod order_commit;
mod outcome;
mod page;
mod payload;
mod query;
mod queues;
mod run;
mod run_interface;
mod runs;
mod schedule_orders;
mod schedules;
mod seats;
mod statistics;
mod statistics_interface;
mod system;
mod timeline;
mod workers;

pub use action::{Action, ForkRun, StartRun};
pub use approvals::{ApprovalPage, ListApprovals};
pub use audit::{AuditEntry, AuditPage, ListAudit};
pub use bulk::{BulkPage, BulkPreview, BulkView, ListBulks};
pub use bulk_action::{BulkAction, StartBulk};
#[doc(hidden)]
pub use bulk_chunk::next_bulk_chunk;
pub use bulk_interface::OperateBulk;
pub use change_interface::OperateChanges;
pub(crate) use change_watch::ChangeWatch;
pub use changes::{Change, ChangePage, ChangesOf, ListChanges};
pub use counts::{Count, Counts, MOST_COUNTED};
pub use cursor::Cursor;
pub use error::{OperateError, OperateErrorCode};
pub use failures::{FailurePage, FailureView, ListFailures};
pub use history::{HistoryItem, HistoryPage, ListHistory};
pub use interface::Operate;
pub use items::{EmittedPage, EmittedView, ListEmitted};
pub use limits::LimitView;
pub use order::{Order, Payload, Role};
pub use outcome::{Done, OrderOutcome};
pub use page::{ListRuns, RunPage};
pub use payload::{PayloadOf, PayloadText, SHOWN_BYTES, StoredPayload};
pub use query::{DurationTest, Fact, Moment, Pattern, Query, QueryError, QueryErrorKind, Term, Test, TimeTest};
pub use queues::{GatePage, GateView, ListGates, QueueView};
pub use run::RunDetail;
pub use run_interface::OperateRuns;
pub use schedule_orders::{BackfillSchedule, ClearedSetting, CreateSchedule, ScheduleSettings, UpdateSchedule};
pub use schedules::{BackfillView, ListSchedules, OccurrenceView, SchedulePage, ScheduleView, UnreadableView};
pub use seats::{ListSeats, SeatPage, SeatState, SeatView};
pub use statistics::{ListStats, Stats, StatsBy, StatsGroup, StatsPage, StatsStep};
pub use statistics_interface::OperateStatistics;
pub use system::SystemView;
pub use timeline::{Bar, BarState, ListTimeline, Mark, MarkKind, RunSpan, SpanState, Timeline, TimelineRow};
pub use workers::{VersionView, WorkerView, WorkflowView};
pub use workflow_engine::model::{
    AuditId, AwaitedStep, BulkFailure, BulkId, BulkStatus, DatabaseView, ErrorSummary, MissingRights, MoveView,
    OpenTransactionView, PostgresView, Retention, RunId, RunNow, RunSummary, SleepingGate, SqliteView, StandbyView,
    StatisticsSpan, TableView,
};
pub use workflow_engine::schedule::ZoneDataView;
pub use workflow_engine::store::{Direction, SCAN_BUDGET};
