use std::sync::Arc;
use std::task::{Context, Poll, ready};

use serde::de::DeserializeOwned;

use crate::BoxError;
use crate::{Error, Result};
use workflow_engine::model::{ErrorKind, StoredError, unquoted};
use workflow_engine::replay::{CallId, CallPoll, Delivered, SignalWait};
use workflow_engine::runtime::decode;

use super::RunCell;

/// A wait for something that comes through the inbox of the run: a signal, a decision or an event.
/// Dropping it ends the wait.
#[derive(Debug)]
pub(super) struct InboxWait<'a> {
    cell: &'a Arc<RunCell>,
    call: Result<CallId, StoredError>,
    pub(super) wait: SignalWait,
}

impl<'a> InboxWait<'a> {
    pub(super) const fn new(cell: &'a Arc<RunCell>, call: Result<CallId, StoredError>, wait: SignalWait) -> Self {
        Self { cell, call, wait }
    }

    /// Returns the payload, or `None` after the timeout. `described` names the source of the
    /// payload in an error, such as `signal "paid"`.
    pub(super) fn poll<T: DeserializeOwned>(
        &self,
        context: &mut Context<'_>,
        described: impl FnOnce(&SignalWait) -> String,
    ) -> Poll<Result<Option<T>>> {
        let delivered = ready!(self.poll_delivered(context))?;
        Poll::Ready(received(delivered, || described(&self.wait)))
    }

    fn poll_delivered(&self, context: &mut Context<'_>) -> Poll<Result<Delivered, StoredError>> {
        let call = self.call.clone()?;
        match self.cell.poll_signal(call, || self.wait.clone(), context.waker()) {
            CallPoll::Ended(delivered) => Poll::Ready(Ok(delivered)),
            CallPoll::Pending | CallPoll::Start { .. } | CallPoll::Run => Poll::Pending,
        }
    }
}

impl Drop for InboxWait<'_> {
    fn drop(&mut self) {
        if let Ok(call) = self.call {
            self.cell.dropped(call);
        }
    }
}

/// Decodes the record of a wait: one payload, or none if the timeout had passed.
fn received<T: DeserializeOwned>(delivered: Delivered, described: impl FnOnce() -> String) -> Result<Option<T>> {
    let text = match delivered {
        Delivered::Failed(error) => return Err(error.into()),
        Delivered::Recorded(text) => text,
        Delivered::Kept => return Ok(None),
    };
    let payloads: Result<[T; 1], _> = decode(&text).map_err(unquoted);
    match payloads {
        Ok([payload]) => Ok(Some(payload)),
        Err(_) if text == "[]" => Ok(None),
        Err(error) => {
            let (described, type_name) = (described(), std::any::type_name::<T>());
            let message = format!(
                "the payload of {described} does not decode as {type_name}: {error}; send a value of that type, best \
                 by a Signal<T> that sender and receiver share"
            );
            let error: BoxError = message.into();
            Err(Error::from(StoredError::from_error(ErrorKind::Refused, error.as_ref()).fatal()))
        }
    }
}
