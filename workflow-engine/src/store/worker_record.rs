use crate::model::{Lane, Retention, Timestamp, WorkerId};

/// The record of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    /// The worker.
    pub id: WorkerId,
    /// The lanes that it serves; empty for a worker of a release that did not record them, or that
    /// recorded them in a form that this program does not understand.
    pub lanes: Vec<Lane>,
    /// How long it keeps ended runs. `None`: it declared that in a form that this program does not
    /// understand.
    pub retention: Option<Retention>,
    /// When it began.
    pub started_at: Timestamp,
    /// `true` if its liveness lock is held at this moment.
    pub live: bool,
}
