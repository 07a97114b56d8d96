use workflow_engine::model::{Timestamp, WorkerId};
use workflow_engine::store::{ConnectError, DatabaseError};

/// Why a system was not moved. Unless the variant says otherwise, nothing was changed, except that
/// the tables of the target may have been created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A database cannot be opened, or has another schema version than this program.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A database failed. The move goes on where it stopped if it is ordered again.
    #[error("the move stopped; order it again to go on")]
    Database(#[from] DatabaseError),
    /// The copy of [`Transfer::also`](crate::Transfer::also) failed. The move goes on if it is
    /// ordered again. Both databases stay closed until then.
    #[error("a further copy failed: {0}; order the move again to go on")]
    Also(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Both URLs name one database.
    #[error("{database:?} cannot be moved to itself; name another database")]
    SameDatabase {
        /// The URL without its password.
        database: String,
    },
    /// One of the databases is in the memory of a process.
    #[error("{database:?} is in the memory of a process; name a file or a server")]
    InMemory {
        /// The URL without its password.
        database: String,
    },
    /// Workers live in one of the databases.
    #[error("workers live in {database:?}: {}; stop them first", list(workers))]
    Workers {
        /// The URL without its password.
        database: String,
        /// The workers.
        workers: Vec<WorkerId>,
    },
    /// The target has rows that do not come from this move.
    #[error("{database:?} has rows in {table}; name an empty database, or another schema")]
    NotEmpty {
        /// The URL without its password.
        database: String,
        /// The first table with rows.
        table: &'static str,
    },
    /// The source is being moved to another database.
    #[error("{database:?} is being moved to {to:?}; go on there, or undo that move first")]
    OtherTarget {
        /// The URL of the source without its password.
        database: String,
        /// The target of the move that has begun.
        to: String,
    },
    /// The database has a part of a copy that another move has begun.
    #[error("{database:?} has the beginning of a move from {from:?}; finish that move, or use another database")]
    OtherSource {
        /// The URL without its password.
        database: String,
        /// The source of the move that has begun.
        from: String,
    },
    /// The target is itself the source of a move.
    #[error("{database:?} is or was moved to {to:?} itself; name another database")]
    TargetIsSource {
        /// The URL without its password.
        database: String,
        /// The target of that move.
        to: String,
    },
    /// The system was moved before.
    #[error("{database:?} was moved to {to:?} at {at}; use that database")]
    AlreadyMoved {
        /// The URL without its password.
        database: String,
        /// The target.
        to: String,
        /// When the move ended.
        at: Timestamp,
    },
    /// The database takes part in no move, so there is nothing to undo.
    #[error("{database:?} is not being moved; there is nothing to undo")]
    NotMoving {
        /// The URL without its password.
        database: String,
    },
    /// The copy differs from the source. Both stay closed.
    #[error(
        "the copy of {table} differs: the source has {source_rows} rows ({source_sum}), the target {target_rows} \
         ({target_sum}); undo the move, and move to another database"
    )]
    Differs {
        /// The table.
        table: &'static str,
        /// The rows of the source.
        source_rows: u64,
        /// The rows of the target.
        target_rows: u64,
        /// The checksum of the source.
        source_sum: String,
        /// The checksum of the target.
        target_sum: String,
    },
}

fn list(workers: &[WorkerId]) -> String {
    workers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
