use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::{
    CodecError, CodedPayload, PayloadCodec, PayloadContext, RunId, StepAttempt, StoredError, UnreadablePayload,
    UnreadableReason,
};

use super::{DatabaseError, DatabaseErrorKind, HistoryRow};

/// The beginning of a text that a codec has made: `coded:1:KEY:BASE64`. It is not JSON, so no
/// payload begins like this, and a program without the codec cannot mistake it for an author's
/// text.
const MARK: &str = "coded:";

/// The version of the form that follows the mark.
const VERSION: &str = "1";

/// The largest stored form. Payloads have at most 64 MiB, and base64 adds a third. A codec that
/// adds more is at fault, and a batch of such texts must stay far below the limit of a statement.
const MAX_CODED_BYTES: usize = 96 * 1024 * 1024;

/// The text that replaces the message of an encoded error.
const HIDDEN: &str = "(encoded)";

/// Encodes each payload on its way to the database and decodes it on its way back.
///
/// Without a codec payloads pass unchanged, but a payload that another program has encoded is still
/// recognized.
#[derive(Clone, Debug, Default)]
pub struct Coding(Option<Arc<dyn PayloadCodec>>);

impl Coding {
    /// Returns a coding with this codec.
    #[must_use]
    pub fn new(codec: Arc<dyn PayloadCodec>) -> Self {
        Self(Some(codec))
    }

    /// `true` if there is a codec, so that the stored text differs from the payload.
    pub(super) fn encodes(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the stored form of a payload.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Codec`] if the codec fails or `plain` stands in the place of a
    /// payload that could not be decoded, [`DatabaseErrorKind::Invalid`] if its text is too large.
    pub(super) fn encode(&self, context: &PayloadContext<'_>, plain: &str) -> Result<String, DatabaseError> {
        if let Some(unreadable) = UnreadablePayload::in_place_of(plain) {
            return Err(unreadable.into());
        }
        let Some(codec) = &self.0 else { return Ok(plain.to_owned()) };
        let coded = guarded(|| codec.encode(context, plain.as_bytes())).map_err(|error| unencoded(context, &error))?;
        if !CodedPayload::is_key_id(&coded.key_id) {
            let why = format!("{:?} is not a key id; use 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'", coded.key_id);
            return Err(unencoded(context, &CodecError::Failed(why)));
        }
        let bytes = MARK.len() + VERSION.len() + coded.key_id.len() + 2 + coded.bytes.len().div_ceil(3) * 4;
        if bytes > MAX_CODED_BYTES {
            let why = format!("{context} is {bytes} bytes when encoded, the limit is {MAX_CODED_BYTES}");
            return Err(DatabaseError::new(DatabaseErrorKind::Invalid, "encode a payload", why));
        }
        let mut text = String::with_capacity(bytes);
        text.extend([MARK, VERSION, ":", &coded.key_id, ":"]);
        STANDARD.encode_string(&coded.bytes, &mut text);
        Ok(text)
    }

    /// Returns the payload of a stored text.
    pub(super) fn decode<'t>(
        &self,
        context: &PayloadContext<'_>,
        stored: &'t str,
    ) -> Result<Cow<'t, str>, UnreadablePayload> {
        let unreadable = |key: Option<&str>, reason| UnreadablePayload::new(context, key, reason);
        let Some(envelope) = stored.strip_prefix(MARK) else {
            return match &self.0 {
                Some(codec) if !codec.reads_plain() => Err(unreadable(None, UnreadableReason::Plain)),
                _ => Ok(Cow::Borrowed(stored)),
            };
        };
        let malformed = || unreadable(None, UnreadableReason::Malformed);
        let (key, base64) = envelope
            .strip_prefix(VERSION)
            .and_then(|rest| rest.strip_prefix(':')?.split_once(':'))
            .filter(|(key, _)| CodedPayload::is_key_id(key))
            .ok_or_else(malformed)?;
        let Some(codec) = &self.0 else { return Err(unreadable(Some(key), UnreadableReason::NoCodec)) };
        if stored.len() > MAX_CODED_BYTES {
            return Err(malformed());
        }
        let bytes = STANDARD.decode(base64).map_err(|_| unreadable(Some(key), UnreadableReason::Malformed))?;
        let coded = CodedPayload { key_id: key.to_owned(), bytes };
        let plain = guarded(|| codec.decode(context, &coded)).map_err(|error| {
            let reason = match error {
                CodecError::UnknownKey => UnreadableReason::UnknownKey,
                CodecError::NotAuthentic => UnreadableReason::NotAuthentic,
                CodecError::Failed(why) => UnreadableReason::Failed(why),
            };
            unreadable(Some(key), reason)
        })?;
        String::from_utf8(plain).map(Cow::Owned).map_err(|_| unreadable(Some(key), UnreadableReason::Malformed))
    }

    /// Decodes a text in place.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Codec`] from an [`UnreadablePayload`].
    pub(super) fn open(&self, context: &PayloadContext<'_>, text: &mut String) -> Result<(), DatabaseError> {
        if let Cow::Owned(plain) = self.decode(context, text).map_err(DatabaseError::from)? {
            *text = plain;
        }
        Ok(())
    }

    /// Decodes a text in place, or replaces it by the reason why it cannot be decoded;
    /// [`UnreadablePayload::in_place_of`] recognizes that.
    pub(super) fn show(&self, context: &PayloadContext<'_>, text: &mut String) {
        match self.decode(context, text) {
            Ok(Cow::Borrowed(_)) => {}
            Ok(Cow::Owned(plain)) => *text = plain,
            Err(unreadable) => *text = unreadable.to_text(),
        }
    }

    /// Returns the stored form of an error: its kind, step and times stay readable.
    pub(super) fn encode_error(
        &self,
        context: &PayloadContext<'_>,
        error: &StoredError,
    ) -> Result<StoredError, DatabaseError> {
        if !self.encodes() {
            return Ok(error.clone());
        }
        let plain = serde_json::to_string(error)
            .map_err(|error| DatabaseError::new(DatabaseErrorKind::Other, "encode an error", error))?;
        Ok(error.without_payloads(HIDDEN.into(), self.encode(context, &plain)?))
    }

    fn decode_error(
        &self,
        context: &PayloadContext<'_>,
        stored: &StoredError,
    ) -> Result<Option<StoredError>, UnreadablePayload> {
        let Some(coded) = stored.coded.as_deref().filter(|text| text.starts_with(MARK)) else {
            // Databases write this error themselves, and it holds nothing of an author.
            let is_own = *stored == StoredError::deadline();
            return match &self.0 {
                Some(codec) if !codec.reads_plain() && !is_own => {
                    Err(UnreadablePayload::new(context, None, UnreadableReason::Plain))
                }
                _ => Ok(None),
            };
        };
        let plain = self.decode(context, coded)?;
        Ok(Some(StoredError::from_stored(&plain)))
    }

    /// See [`Coding::open`].
    ///
    /// # Errors
    /// See [`Coding::open`].
    pub(super) fn open_error(
        &self,
        context: &PayloadContext<'_>,
        error: &mut StoredError,
    ) -> Result<(), DatabaseError> {
        if let Some(plain) = self.decode_error(context, error).map_err(DatabaseError::from)? {
            *error = plain;
        }
        Ok(())
    }

    /// See [`Coding::show`].
    pub(super) fn show_error(&self, context: &PayloadContext<'_>, error: &mut StoredError) {
        match self.decode_error(context, error) {
            Ok(None) => {}
            Ok(Some(plain)) => *error = plain,
            Err(unreadable) => *error = error.without_payloads(unreadable.to_string(), unreadable.to_text()),
        }
    }

    /// Returns the stored form of a row of a history.
    pub(super) fn encode_row(&self, run_id: RunId, plain: &StepAttempt) -> Result<StepAttempt, DatabaseError> {
        let mut row = plain.clone();
        if let Some(output) = &mut row.output {
            *output = self.encode(&PayloadContext::of_output(run_id, plain), output)?;
        }
        if let Some(error) = &mut row.error {
            *error = self.encode_error(&PayloadContext::of_error(run_id, plain), error)?;
        }
        Ok(row)
    }

    /// Decodes a row of a history. A workflow may decide by the kind of an error, so an error that
    /// this program does not understand must not reach it.
    ///
    /// # Errors
    /// See [`Coding::open`]. Kind [`DatabaseErrorKind::Corrupt`] for an error that is not
    /// understood.
    pub(super) fn open_row(&self, run_id: RunId, row: &mut StepAttempt) -> Result<(), DatabaseError> {
        let (mut output, mut error) = (row.output.take(), row.error.take());
        if let Some(output) = &mut output {
            self.open(&PayloadContext::of_output(run_id, row), output)?;
        }
        if let Some(error) = &mut error {
            self.open_error(&PayloadContext::of_error(run_id, row), error)?;
            understood(error, || format!("the error of step {:?}", row.step_key))?;
        }
        (row.output, row.error) = (output, error);
        Ok(())
    }

    /// Decodes a row of a part of a history, or replaces what cannot be decoded by the reason. The
    /// size of an output that is shown is that of its decoded form.
    pub(super) fn show_row(&self, run_id: RunId, shown: &mut HistoryRow) {
        let row = &mut shown.row;
        let (mut output, mut error) = (row.output.take(), row.error.take());
        if let Some(output) = &mut output {
            self.show(&PayloadContext::of_output(run_id, row), output);
            shown.output_bytes = u64::try_from(output.len()).ok();
        }
        if let Some(error) = &mut error {
            self.show_error(&PayloadContext::of_error(run_id, row), error);
        }
        (row.output, row.error) = (output, error);
    }
}

/// Calls a codec and turns its panic into an error: it is code of others, and it is called on the
/// thread of the executor, which must survive it.
fn guarded<T>(call: impl FnOnce() -> Result<T, CodecError>) -> Result<T, CodecError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(CodecError::Failed("it panicked".into())))
}

/// Refuses a stored error that this program does not understand.
///
/// # Errors
/// Kind [`DatabaseErrorKind::Corrupt`].
pub fn understood(error: &StoredError, what: impl FnOnce() -> String) -> Result<(), DatabaseError> {
    let Some(why) = error.why_not_understood() else { return Ok(()) };
    let why = format!("{} is not understood: {why}", what());
    Err(DatabaseError::new(DatabaseErrorKind::Corrupt, "understand an error", why))
}

fn unencoded(context: &PayloadContext<'_>, error: &CodecError) -> DatabaseError {
    let why = format!("{context} cannot be encoded: {error}; nothing was written, it is tried again later");
    DatabaseError::new(DatabaseErrorKind::Codec, "encode a payload", why)
}

impl From<UnreadablePayload> for DatabaseError {
    fn from(unreadable: UnreadablePayload) -> Self {
        Self::new(DatabaseErrorKind::Codec, "decode a payload", unreadable)
    }
}
