//! Blocks that run at once, of which the first failure ends the others.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use workflow_sdk::{Error, Result};

use super::frame::Frame;
use crate::graph::{Kind, Step};

/// The state that blocks share which run at once.
///
/// After the first failure nothing new begins in them. The blocks are dropped once no step with an
/// undo runs: its tool may have had its effect already, and only a result arms the undo.
pub(super) struct Siblings {
    /// The siblings of the block in which these blocks stand.
    around: Option<Arc<Siblings>>,
    has_failed: AtomicBool,
    undoable: Mutex<Undoable>,
}

/// The steps with an undo that run.
#[derive(Default)]
struct Undoable {
    count: u32,
    /// Wakes the block that has failed.
    waker: Option<Waker>,
}

impl Siblings {
    pub(super) fn inside(around: Option<&Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { around: around.cloned(), has_failed: AtomicBool::new(false), undoable: Mutex::default() })
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Returns these and those around them.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |siblings| siblings.around.as_deref())
    }

    fn undoable(&self) -> MutexGuard<'_, Undoable> {
        self.undoable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until_none_is_undoable(&self) {
        let ended = poll_fn(|cx| {
            let mut undoable = self.undoable();
            if undoable.count == 0 {
                return Poll::Ready(());
            }
            undoable.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        ended.await;
    }
}

/// A step with an undo runs until this value is dropped.
pub(super) struct Running(Option<Arc<Siblings>>);

impl Drop for Running {
    fn drop(&mut self) {
        for siblings in self.0.iter().flat_map(|siblings| siblings.all()) {
            let waker = {
                let mut undoable = siblings.undoable();
                undoable.count = undoable.count.saturating_sub(1);
                if undoable.count == 0 { undoable.waker.take() } else { None }
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Frame<'_> {
    /// Waits without end if a block that runs beside this one has failed, because this one is about
    /// to be dropped. Call it before something begins.
    pub(super) async fn may_begin(&self) {
        if self.siblings.iter().flat_map(|siblings| siblings.all()).any(Siblings::has_failed) {
            pending().await
        }
    }

    /// Notes that a step runs, if it is a tool with an undo. Call it when the step
    /// [may begin](Self::may_begin).
    pub(super) fn runs(&self, step: &Step) -> Running {
        let is_undoable = step.undo.is_some() && matches!(&step.kind, Kind::Tool(call) if !call.external);
        let siblings = self.siblings.clone().filter(|_| is_undoable);
        for siblings in siblings.iter().flat_map(|siblings| siblings.all()) {
            siblings.undoable().count += 1;
        }
        Running(siblings)
    }

    /// Returns the result of one of the blocks that run at once in this frame. The first error that
    /// `fails` takes for a failure of all is returned when no step with an undo runs in the others,
    /// whose results come too late then.
    pub(super) async fn ended<T>(&self, result: Result<T>, fails: impl FnOnce(&Error) -> bool) -> Result<T> {
        let Some(siblings) = &self.siblings else { return result };
        let is_told_to_end = |error: &Error| error.next_input().is_some() || self.ctx.is_canceled();
        if result.as_ref().is_err_and(is_told_to_end) {
            return result;
        }
        if siblings.has_failed() {
            pending::<()>().await;
        }
        if result.as_ref().is_err_and(fails) {
            siblings.has_failed.store(true, Ordering::Relaxed);
            siblings.until_none_is_undoable().await;
        }
        result
    }
}
