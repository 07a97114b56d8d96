//! Decides how a move goes on, and closes both databases to everything else.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use workflow_engine::model::{Retention, Timestamp, WorkerId};
use workflow_engine::store::{
    DatabaseError, StoreOptions, TransferBegin, TransferCursor, TransferRecord, TransferRole, TransferStore, redact,
};

use super::TransferError;
use crate::client::open_transferable;

/// The time after which a worker whose lock was free is checked again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A database that takes part in a move.
pub(super) struct Place {
    pub(super) store: Arc<dyn TransferStore>,
    /// The URL without its password.
    pub(super) name: String,
}

impl Place {
    pub(super) async fn open(url: &str, options: StoreOptions) -> Result<Self, TransferError> {
        let name = redact(url);
        if url.contains(":memory:") {
            return Err(TransferError::InMemory { database: name });
        }
        Ok(Self { store: open_transferable(url, options).await?, name })
    }
}

/// How a move goes on.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Both databases are to be closed.
    Begin,
    /// The target is closed and empty; the source is to be closed.
    CloseSource(Uuid),
    /// The source is closed, the target was opened again; the target is to be closed.
    CloseTarget(Uuid),
    /// Both are closed. The copy has come this far.
    Copy(Option<TransferCursor>),
}

/// Closes both databases, or finds that they are closed. Returns how far the copy has come.
pub(super) async fn close(source: &Place, target: &Place) -> Result<Option<TransferCursor>, TransferError> {
    let records = (source.store.transfer_record().await?, target.store.transfer_record().await?);
    match next((&source.name, records.0.as_ref()), (&target.name, records.1.as_ref()))? {
        Next::Copy(cursor) => return Ok(cursor),
        Next::CloseSource(id) => {
            release_dead_workers(source).await?;
            close_source(id, source, target).await?;
        }
        Next::CloseTarget(id) => begin(id, TransferRole::Target, target, &source.name).await?,
        Next::Begin => {
            release_dead_workers(source).await?;
            let id = Uuid::new_v4();
            begin(id, TransferRole::Target, target, &source.name).await?;
            close_source(id, source, target).await?;
        }
    }
    Ok(None)
}

fn next(
    (source, source_record): (&str, Option<&TransferRecord>),
    (target, target_record): (&str, Option<&TransferRecord>),
) -> Result<Next, TransferError> {
    match (source_record, target_record) {
        (Some(TransferRecord { role: TransferRole::Target, other, .. }), _) => {
            Err(TransferError::OtherSource { database: source.into(), from: other.clone() })
        }
        (_, Some(TransferRecord { role: TransferRole::Source, other, .. })) => {
            Err(TransferError::TargetIsSource { database: target.into(), to: other.clone() })
        }
        (None, None) => Ok(Next::Begin),
        (None, Some(TransferRecord { id, other, cursor: None, .. })) if other == source => Ok(Next::CloseSource(*id)),
        (Some(record), Some(copy)) if record.id == copy.id => Ok(Next::Copy(copy.cursor.clone())),
        (Some(TransferRecord { ended_at: Some(at), other, .. }), _) => {
            Err(TransferError::AlreadyMoved { database: source.into(), to: other.clone(), at: *at })
        }
        (_, Some(copy)) => Err(TransferError::OtherSource { database: target.into(), from: copy.other.clone() }),
        // The source was closed by a call that seemed to fail, and the target was opened after it.
        (Some(record), None) if record.other == target => Ok(Next::CloseTarget(record.id)),
        (Some(record), None) => Err(TransferError::OtherTarget { database: source.into(), to: record.other.clone() }),
    }
}

/// Refuses living workers. Releases the runs of dead ones, as another worker would do.
async fn release_dead_workers(source: &Place) -> Result<(), TransferError> {
    let recorded = source.store.workers().await?;
    let live: Vec<WorkerId> = recorded.iter().filter(|worker| worker.live).map(|worker| worker.id).collect();
    if !live.is_empty() {
        return Err(TransferError::Workers { database: source.name.clone(), workers: live });
    }
    if recorded.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(LOOK_AGAIN).await;
    let mut session = source.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    let released = async {
        for worker in session.look().await?.unlocked {
            session.release_worker(worker).await?;
        }
        Ok::<_, DatabaseError>(())
    };
    let released = released.await;
    session.close().await?;
    Ok(released?)
}

/// Closes the source, or opens the target again.
async fn close_source(id: Uuid, source: &Place, target: &Place) -> Result<(), TransferError> {
    let begun = begin(id, TransferRole::Source, source, &target.name).await;
    if begun.is_err() {
        target.store.open_fence().await?;
    }
    begun
}

async fn begin(id: Uuid, role: TransferRole, place: &Place, other: &str) -> Result<(), TransferError> {
    let begun_at = Timestamp::from(SystemTime::now());
    let record = TransferRecord { id, role, other: other.into(), begun_at, ended_at: None, cursor: None };
    let database = place.name.clone();
    match place.store.begin_transfer(&record).await? {
        TransferBegin::Begun => Ok(()),
        TransferBegin::HasRows { table } => Err(TransferError::NotEmpty { database, table }),
        TransferBegin::HasWorkers => {
            let workers = place.store.workers().await?.into_iter().map(|worker| worker.id).collect();
            Err(TransferError::Workers { database, workers })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u128, role: TransferRole, other: &str) -> TransferRecord {
        let id = Uuid::from_u128(id);
        TransferRecord {
            id,
            role,
            other: other.into(),
            begun_at: Timestamp::from_micros(0),
            ended_at: None,
            cursor: None,
        }
    }

    fn source(id: u128) -> Option<TransferRecord> {
        Some(record(id, TransferRole::Source, "b"))
    }

    fn target(id: u128) -> Option<TransferRecord> {
        Some(record(id, TransferRole::Target, "a"))
    }

    fn decide(source: Option<TransferRecord>, target: Option<TransferRecord>) -> Result<Next, TransferError> {
        next(("a", source.as_ref()), ("b", target.as_ref()))
    }

    #[test]
    fn a_move_begins_or_goes_on_where_it_stopped() {
        assert_eq!(decide(None, None).unwrap(), Next::Begin);
        assert_eq!(decide(None, target(1)).unwrap(), Next::CloseSource(Uuid::from_u128(1)));
        assert_eq!(decide(source(1), None).unwrap(), Next::CloseTarget(Uuid::from_u128(1)));
        let cursor = Some(TransferCursor { table: "workflow_runs".into(), key: Vec::new(), rows: 3 });
        let copy = target(1).map(|copy| TransferRecord { cursor: cursor.clone(), ..copy });
        assert_eq!(decide(source(1), copy.clone()).unwrap(), Next::Copy(cursor));
        let ended = source(1).map(|source| TransferRecord { ended_at: Some(Timestamp::from_micros(0)), ..source });
        assert!(matches!(decide(ended.clone(), copy), Ok(Next::Copy(_))), "the target is still closed");
        assert!(matches!(decide(ended, None), Err(TransferError::AlreadyMoved { .. })));
    }

    #[test]
    fn parts_of_other_moves_are_refused() {
        use TransferError::{OtherSource, OtherTarget, TargetIsSource};
        assert!(matches!(decide(target(1), None), Err(OtherSource { .. })), "the source is half a copy");
        assert!(matches!(decide(None, source(1)), Err(TargetIsSource { .. })));
        assert!(matches!(next(("a", source(1).as_ref()), ("c", None)), Err(OtherTarget { .. })));
        assert!(matches!(decide(source(1), target(2)), Err(OtherSource { .. })));
        let cursor = Some(TransferCursor { table: "workflow_runs".into(), key: Vec::new(), rows: 3 });
        let undone = target(1).map(|copy| TransferRecord { cursor, ..copy });
        assert!(matches!(decide(None, undone), Err(OtherSource { .. })), "the source went on since");
    }
}
