//! Gives calls other names.

use super::{CallId, RunCell, lock};

impl RunCell {
    /// Gives a call that was made with the name `asked` another name. Returns `false`, and changes
    /// nothing, if the call was polled before.
    pub fn rename(&self, call: CallId, asked: &str, name: &str) -> bool {
        let mut inner = lock(&self.inner);
        let is_renamed = inner.machine.rename(call, asked, name);
        if is_renamed {
            self.port.note_call(name, inner.machine.location(call));
        }
        is_renamed
    }
}
