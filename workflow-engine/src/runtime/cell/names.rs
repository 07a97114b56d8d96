//! Gives calls other names, and keeps what a call has from its first poll on.

use std::task::Waker;

use super::{CallId, Inner, RunCell, lock};

impl RunCell {
    /// Gives a call that was made with the name `asked` another name. Returns `false`, and changes
    /// nothing, if the call was polled before.
    pub fn rename(&self, call: CallId, asked: &str, name: &str) -> bool {
        lock(&self.inner).machine.rename(call, asked, name)
    }

    /// Keeps the waker of a call. Notes its line at the first poll, because until then it can be
    /// renamed.
    pub(super) fn keep_waker(&self, inner: &mut Inner, call: CallId, waker: &Waker) {
        let kept = &mut inner.slots[call.index()].waker;
        if kept.is_none() {
            self.port.note_call(inner.machine.key(call), inner.machine.location(call));
        }
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
}
