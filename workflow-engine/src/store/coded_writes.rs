//! Encodes the payloads of writes and decodes those of outcomes.

use std::borrow::Cow;

use crate::model::{
    BulkRecord, Claim, Effect, NewBulk, NewEmission, NewRun, NewSignal, NewSingle, PayloadContext, PayloadPlace,
    StoredSchedule, UnreadablePayload, WhenTaken,
};

use super::coded_statistics::without_messages;
use super::{
    AttemptWrite, Coding, ContinueWrite, DatabaseError, EndWrite, Outcome, ParkWrite, RetryWrite, RunEnd,
    ScheduleWrite, StartOutcome, Write,
};

/// The writes of a batch that could be encoded, and the refusals of the others.
pub(super) struct Encoded {
    pub(super) writes: Vec<Write>,
    /// The refusals, by index in the batch.
    refused: Vec<Option<DatabaseError>>,
    /// The claims of refused writes, each with the index of the write. There is mostly none.
    refused_claims: Vec<(Claim, usize)>,
}

impl Encoded {
    pub(super) fn with_capacity(writes: usize) -> Self {
        Self { writes: Vec::with_capacity(writes), refused: Vec::with_capacity(writes), refused_claims: Vec::new() }
    }

    /// Adds the next write of the batch in its stored form, or the reason why it has none. A write
    /// behind a refused one of its claim may depend on that one, so it is refused too. The outcome
    /// of a call does not: no call ends behind an outcome that waits for its commit.
    pub(super) fn add(&mut self, write: &Write, stored: Result<Cow<'_, Write>, DatabaseError>) {
        let is_outcome = matches!(write.inner(), Write::Attempt(write) if write.row.position.is_some());
        let claim = write.fenced_by().filter(|_| !is_outcome || stored.is_err());
        let before = self.refused_claims.iter().find(|(refused, _)| Some(*refused) == claim).map(|(_, index)| *index);
        let before = before.and_then(|index| self.refused.get(index)?.as_ref()).map(DatabaseError::copied);
        match before.map_or(stored, Err) {
            Ok(stored) => {
                self.writes.push(stored.into_owned());
                self.refused.push(None);
            }
            Err(error) => {
                self.refused_claims.extend(claim.map(|claim| (claim, self.refused.len())));
                self.refused.push(Some(error));
            }
        }
    }

    /// Returns the outcomes of the whole batch, given those of its encoded writes.
    pub(super) fn outcomes(self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let mut outcomes = outcomes.into_iter();
        self.refused
            .into_iter()
            .filter_map(|refused| refused.map(Outcome::Refused).or_else(|| outcomes.next()))
            .collect()
    }
}

impl Coding {
    /// Returns a run to be started, in its stored form.
    ///
    /// # Errors
    /// Kind [`Codec`](super::DatabaseErrorKind::Codec) if the codec fails,
    /// [`Invalid`](super::DatabaseErrorKind::Invalid) if its text is too large.
    pub fn encode_start<'r>(&self, run: &'r NewRun) -> Result<Cow<'r, NewRun>, DatabaseError> {
        if !self.encodes() && !is_mark(&run.input) {
            return Ok(Cow::Borrowed(run));
        }
        let input = self.encode(&PayloadContext::new(run.id, PayloadPlace::Input), &run.input)?;
        let mut run = NewRun { input, ..run.clone() };
        if let Some(NewSingle { taken: WhenTaken::Move(moved), .. }) = &mut run.single {
            moved.input = self.encode(&PayloadContext::new(moved.id, PayloadPlace::Input), &moved.input)?;
        }
        Ok(Cow::Owned(run))
    }

    /// Decodes the outcome of a start, so that the client can compare inputs.
    pub fn decode_started(&self, outcome: &mut StartOutcome) {
        if let StartOutcome::Existing { id, input } = outcome {
            self.show(&PayloadContext::new(*id, PayloadPlace::Input), input);
        }
    }

    /// Returns a signal to be sent, in its stored form.
    ///
    /// # Errors
    /// Kind [`Codec`](super::DatabaseErrorKind::Codec) if the codec fails,
    /// [`Invalid`](super::DatabaseErrorKind::Invalid) if its text is too large.
    pub fn encode_signal<'s>(&self, signal: &'s NewSignal) -> Result<Cow<'s, NewSignal>, DatabaseError> {
        if !self.encodes() {
            return Ok(Cow::Borrowed(signal));
        }
        let context = PayloadContext::new(signal.run_id, PayloadPlace::Signal { name: &signal.name });
        let payload = self.encode(&context, &signal.payload)?;
        Ok(Cow::Owned(NewSignal { payload, ..signal.clone() }))
    }

    /// Returns a write in its stored form, except a fork or a schedule, for which the database has
    /// to be read first, and an audited write or a chunk, which may have one.
    pub(super) fn encode_write<'w>(&self, write: &'w Write) -> Result<Cow<'w, Write>, DatabaseError> {
        Ok(Cow::Owned(match write {
            Write::Start(run) => Write::Start(self.encode_start(run)?.into_owned()),
            Write::Attempt(write) => Write::Attempt(self.encode_attempt(write)?),
            Write::Signal(signal) => Write::Signal(self.encode_signal(signal)?.into_owned()),
            Write::Emit(emission) => {
                let context = PayloadContext::of_event(&emission.event.name, &emission.event.key);
                Write::Emit(NewEmission { payload: self.encode(&context, &emission.payload)?, ..emission.clone() })
            }
            Write::End(write) => Write::End(self.encode_end(write)?),
            Write::Park(write) => {
                let context = PayloadContext::new(write.claim.run_id, PayloadPlace::Error);
                let error = write.error.as_ref().map(|error| self.encode_error(&context, error)).transpose()?;
                Write::Park(ParkWrite { error, ..write.clone() })
            }
            Write::Retry(write) => {
                let context = PayloadContext::new(write.claim.run_id, PayloadPlace::Error);
                Write::Retry(RetryWrite { error: self.encode_error(&context, &write.error)?, ..write.clone() })
            }
            Write::Continue(ContinueWrite { claim, input }) => {
                let input = self.encode(&PayloadContext::new(claim.run_id, PayloadPlace::Input), input)?;
                Write::Continue(ContinueWrite { claim: *claim, input })
            }
            Write::Statistics(write) => Write::Statistics(Box::new(without_messages(write))),
            // These writes carry no payload, except forks, schedules and the writes within others,
            // which are not encoded here.
            Write::Fork(_)
            | Write::Schedule(_)
            | Write::Revive(_)
            | Write::Pause(_)
            | Write::Crashes(_)
            | Write::Resume(_)
            | Write::Place(_)
            | Write::Queue(_)
            | Write::Limit(_)
            | Write::CallSeats(_)
            | Write::ReleaseUnknown { .. }
            | Write::Cancel(_)
            | Write::Terminate(_)
            | Write::Delete(_)
            | Write::Expire { .. }
            | Write::Bulk(_)
            | Write::Audited(_)
            | Write::Claim(_) => return Ok(Cow::Borrowed(write)),
        }))
    }

    /// Returns a bulk operation in its stored form.
    pub(super) fn encode_bulk(&self, order: &NewBulk) -> Result<NewBulk, DatabaseError> {
        let context = PayloadContext::of_bulk(order.id);
        let payload = order.payload.as_ref().map(|payload| self.encode(&context, payload)).transpose()?;
        Ok(NewBulk { payload, ..order.clone() })
    }

    /// Decodes the payload of a bulk operation, or replaces it by the reason why it cannot be
    /// decoded.
    pub(super) fn show_bulk(&self, row: &mut BulkRecord) {
        if let Some(payload) = &mut row.order.payload {
            self.show(&PayloadContext::of_bulk(row.order.id), payload);
        }
    }

    /// Decodes the input of a schedule, or replaces it by the reason why it cannot be decoded.
    pub(super) fn show_schedule(&self, row: &mut StoredSchedule) {
        if let Some(input) = &mut row.input {
            self.show(&PayloadContext::of_schedule(&row.name), input);
        }
    }

    /// Returns a change of a schedule in its stored form.
    pub(super) fn encode_schedule(&self, write: &ScheduleWrite) -> Result<ScheduleWrite, DatabaseError> {
        let mut write = write.clone();
        if let Some(StoredSchedule { name, input: Some(input), .. }) = &mut write.next {
            *input = self.encode(&PayloadContext::of_schedule(name), input)?;
        }
        for run in &mut write.starts {
            *run = self.encode_start(run)?.into_owned();
        }
        Ok(write)
    }

    fn encode_attempt(&self, write: &AttemptWrite) -> Result<AttemptWrite, DatabaseError> {
        let effect = match &write.effect {
            Effect::Start(child) => Effect::Start(Box::new(self.encode_start(child)?.into_owned())),
            Effect::None => Effect::None,
            Effect::Consume { seq } => Effect::Consume { seq: *seq },
            Effect::AwaitEvent(wait) => Effect::AwaitEvent(wait.clone()),
            Effect::LeaveEvent(left) => Effect::LeaveEvent(left.clone()),
            Effect::TakeSeat(line) => Effect::TakeSeat(line.clone()),
            Effect::LeaveSeat(line) => Effect::LeaveSeat(line.clone()),
        };
        Ok(AttemptWrite { claim: write.claim, row: self.encode_row(write.claim.run_id, &write.row)?, effect })
    }

    fn encode_end(&self, write: &EndWrite) -> Result<EndWrite, DatabaseError> {
        let context = |place| PayloadContext::new(write.claim.run_id, place);
        let end = match &write.end {
            RunEnd::Succeeded(output) => RunEnd::Succeeded(self.encode(&context(PayloadPlace::Output), output)?),
            RunEnd::Failed(error) => RunEnd::Failed(self.encode_error(&context(PayloadPlace::FinalError), error)?),
            RunEnd::Canceled => RunEnd::Canceled,
        };
        Ok(EndWrite { end, ..write.clone() })
    }
}

/// Returns `true` if an input of the write is the mark of an [`UnreadablePayload`]: the writer has
/// read it and passes it on.
pub(super) fn has_mark(write: &Write) -> bool {
    match write.inner() {
        Write::Schedule(write) => {
            let input = write.next.as_ref().and_then(|row| row.input.as_deref());
            input.is_some_and(is_mark) || write.starts.iter().any(|run| is_mark(&run.input))
        }
        Write::Start(run) => is_mark(&run.input),
        Write::Fork(fork) => is_mark(&fork.new.input),
        _ => false,
    }
}

/// Returns `true` if this text stands in the place of an input that cannot be decoded.
pub(super) fn is_mark(input: &str) -> bool {
    UnreadablePayload::in_place_of(input).is_some()
}
