use std::fmt;
use std::marker::PhantomData;

use workflow_engine::model::RunId;

/// A child that was started, and that this run does not wait for.
pub struct ChildHandle<O> {
    id: RunId,
    output: PhantomData<fn() -> O>,
}

impl<O> ChildHandle<O> {
    pub(super) fn new(id: RunId) -> Self {
        Self { id, output: PhantomData }
    }

    /// Returns the child's id: for [`Ctx::send_signal`](super::Ctx::send_signal), and for
    /// [`Client::handle`](crate::Client::handle) in the application.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }
}

impl<O> fmt::Debug for ChildHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChildHandle").field(&self.id).finish()
    }
}
