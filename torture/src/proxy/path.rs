//! The state that all connections through one proxy share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::fault::{Delivered, Fault, Moment};

/// The role of a frame, as far as faults distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameRole {
    Commit,
    CommitReply,
    Other,
}

#[derive(Debug)]
pub(super) struct Path {
    commits: AtomicU64,
    /// The number of cuts.
    cuts: watch::Sender<u64>,
    /// Never held across an await.
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    target: SocketAddr,
    armed: Option<(Fault, Moment)>,
    delivered: Vec<Delivered>,
    hole: bool,
    delay: Duration,
    bytewise: bool,
}

impl Path {
    pub(super) fn new(target: SocketAddr) -> Self {
        let inner =
            Inner { target, armed: None, delivered: Vec::new(), hole: false, delay: Duration::ZERO, bytewise: false };
        Self { commits: AtomicU64::new(0), cuts: watch::Sender::new(0), inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn target(&self) -> SocketAddr {
        self.inner().target
    }

    pub(super) fn lead_to(&self, target: SocketAddr) {
        self.inner().target = target;
    }

    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Returns a view of the cuts, which changes with the next one.
    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    pub(super) fn arm(&self, fault: Fault, moment: Moment) {
        self.inner().armed = Some((fault, moment));
    }

    pub(super) fn heal(&self) {
        let mut inner = self.inner();
        (inner.armed, inner.hole, inner.delay, inner.bytewise) = (None, false, Duration::ZERO, false);
    }

    pub(super) fn delivered(&self) -> Vec<Delivered> {
        self.inner().delivered.clone()
    }

    pub(super) fn is_hole(&self) -> bool {
        self.inner().hole
    }

    /// Returns the delay of each frame, and `true` if each byte is sent alone.
    pub(super) fn pace(&self) -> (Duration, bool) {
        let inner = self.inner();
        (inner.delay, inner.bytewise)
    }

    pub(super) fn commit_passed(&self) {
        self.commits.fetch_add(1, Relaxed);
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Relaxed)
    }

    /// Returns the fault that must happen at this frame, and counts it as delivered.
    pub(super) fn due(&self, role: FrameRole, at_work: bool, in_transaction: bool) -> Option<Fault> {
        let mut inner = self.inner();
        let (fault, moment) = inner.armed?;
        match (moment, role) {
            (Moment::Commit, FrameRole::Commit) | (Moment::CommitReply, FrameRole::CommitReply) => {}
            (Moment::Frame(0), _) if at_work => {}
            (Moment::Frame(more), _) if at_work => {
                inner.armed = Some((fault, Moment::Frame(more - 1)));
                return None;
            }
            _ => return None,
        }
        inner.armed = None;
        inner.delivered.push(Delivered { fault, moment, in_transaction });
        match fault {
            Fault::Hole => inner.hole = true,
            Fault::Slow(delay) => inner.delay = delay,
            Fault::Bytes => inner.bytewise = true,
            Fault::Close | Fault::Reset | Fault::Torn | Fault::Stall(_) => {}
        }
        Some(fault)
    }
}
