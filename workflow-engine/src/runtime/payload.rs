//! Converts values to their stored form, JSON text, and checks that they can be read back.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::{DECODER_PANICKED, unquoted};

/// The default limit of a payload: 2 MiB. A batch of such payloads fits in memory.
pub const DEFAULT_PAYLOAD_LIMIT: usize = 2 * 1024 * 1024;

/// The reason why a value cannot be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The value's own `Serialize` failed or panicked, or the value has a form that JSON lacks.
    #[error("{subject} of type {type_name} cannot be written as JSON: {source}")]
    Encode {
        /// A description of the value.
        subject: String,
        /// The value's Rust type.
        type_name: &'static str,
        /// The error of serde_json.
        source: serde_json::Error,
    },
    /// The value can be written but not read back. It contains a NaN, an infinite number or more
    /// than 127 levels of nesting, or its `Serialize` and `Deserialize` do not match, or its
    /// `Deserialize` panicked.
    #[error(
        "{subject} of type {type_name} can be written but not read back ({source}); \
         it may hold a NaN, an infinite number, or a nesting deeper than 127"
    )]
    RoundTrip {
        /// A description of the value.
        subject: String,
        /// The value's Rust type.
        type_name: &'static str,
        /// The error of serde_json.
        source: serde_json::Error,
    },
    /// The value is larger than the limit.
    #[error(
        "{subject} is {bytes} bytes, the limit is {limit}; \
         keep large data elsewhere and pass a reference, or raise payload_limit"
    )]
    TooLarge {
        /// A description of the value.
        subject: String,
        /// The value's size in bytes of JSON text.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl PayloadError {
    /// Returns the error without the value that its reason quotes.
    fn unquoted(self) -> Self {
        match self {
            Self::RoundTrip { subject, type_name, source } => {
                Self::RoundTrip { subject, type_name, source: unquoted(source) }
            }
            other => other,
        }
    }
}

/// Returns the value as JSON text, and the value that this text decodes to. Every later reader gets
/// the decoded value, so the first reader must get it too.
///
/// # Errors
/// [`PayloadError`] if the value cannot be written and read back, or if its text is longer than
/// `limit`.
pub fn round_trip<T>(
    subject: &(impl fmt::Display + ?Sized),
    value: &T,
    limit: usize,
) -> Result<(String, T), PayloadError>
where
    T: Serialize + DeserializeOwned,
{
    let (text, value) = round_trip_for_caller(subject, value, limit).map_err(PayloadError::unquoted)?;
    Ok((text, value))
}

/// Does what [`round_trip`] does, for the code that supplied the value. The error quotes the value
/// and has the reason of an author's own check (`#[serde(try_from = "..")]`), so it must reach
/// neither the database nor the log.
///
/// # Errors
/// See [`round_trip`].
pub fn round_trip_for_caller<T>(
    subject: &(impl fmt::Display + ?Sized),
    value: &T,
    limit: usize,
) -> Result<(String, T), PayloadError>
where
    T: Serialize + DeserializeOwned,
{
    let text = encode(subject, value, limit)?;
    let value = decode(&text).map_err(|source| PayloadError::RoundTrip {
        subject: subject.to_string(),
        type_name: std::any::type_name::<T>(),
        source,
    })?;
    Ok((text, value))
}

/// Decodes JSON text. A panic of the type's own `Deserialize` is an error like any other: the type
/// does not accept the text.
///
/// # Errors
/// The error of serde_json, or [`DECODER_PANICKED`].
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    catch_unwind(|| serde_json::from_str(text)).unwrap_or_else(|_| Err(serde::de::Error::custom(DECODER_PANICKED)))
}

/// Returns the value as JSON text and checks that the text can be read back. It needs no type to
/// read the value as.
///
/// # Errors
/// See [`round_trip`].
pub fn encode_readable<T: Serialize>(
    subject: &(impl fmt::Display + ?Sized),
    value: &T,
    limit: usize,
) -> Result<String, PayloadError> {
    let text = encode(subject, value, limit)?;
    serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|source| PayloadError::RoundTrip {
        subject: subject.to_string(),
        type_name: std::any::type_name::<T>(),
        source,
    })?;
    Ok(text)
}

/// Returns the value as JSON text, which the receiver may decode as another type.
///
/// # Errors
/// [`PayloadError::Encode`], [`PayloadError::TooLarge`].
pub fn encode<T: Serialize + ?Sized>(
    subject: &(impl fmt::Display + ?Sized),
    value: &T,
    limit: usize,
) -> Result<String, PayloadError> {
    let text = catch_unwind(AssertUnwindSafe(|| serde_json::to_string(value)))
        .unwrap_or_else(|_| Err(serde::ser::Error::custom("its Serialize panicked")))
        .map_err(|source| PayloadError::Encode {
            subject: subject.to_string(),
            type_name: std::any::type_name::<T>(),
            source,
        })?;
    if text.len() > limit {
        return Err(PayloadError::TooLarge { subject: subject.to_string(), bytes: text.len(), limit });
    }
    Ok(text)
}
