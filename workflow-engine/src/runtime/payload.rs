//! A value in the form in which it is kept: JSON text.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::unquoted;

/// Largest payload unless a client or worker says otherwise: 2 MiB, the limit that Temporal sets, and small enough that a
/// batch of them fits in memory.
pub const DEFAULT_PAYLOAD_LIMIT: usize = 2 * 1024 * 1024;

/// A value that cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Its own `Serialize` failed, or it has a form that JSON lacks.
    #[error("{subject} of type {type_name} cannot be written as JSON: {source}")]
    Encode {
        /// What the value is.
        subject: String,
        /// Its Rust type.
        type_name: &'static str,
        /// serde_json's error.
        source: serde_json::Error,
    },
    /// It can be written but not read back: a NaN or infinite number, a value nested deeper than 127, a `Serialize` and a
    /// `Deserialize` that do not fit together.
    #[error(
        "{subject} of type {type_name} can be written but not read back ({source}); \
         it may hold a NaN, an infinite number, or a nesting deeper than 127"
    )]
    RoundTrip {
        /// What the value is.
        subject: String,
        /// Its Rust type.
        type_name: &'static str,
        /// serde_json's error.
        source: serde_json::Error,
    },
    /// It is larger than the limit.
    #[error(
        "{subject} is {bytes} bytes, the limit is {limit}; \
         keep large data elsewhere and pass a reference, or raise payload_limit"
    )]
    TooLarge {
        /// What the value is.
        subject: String,
        /// Its size as JSON text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// The value as JSON text, and the value that this text stands for: what later readers get, so what the first one must
/// get too.
///
/// # Errors
/// [`PayloadError`]: a value that was accepted can be read back.
pub fn round_trip<T>(
    subject: &(impl fmt::Display + ?Sized),
    value: &T,
    limit: usize,
) -> Result<(String, T), PayloadError>
where
    T: Serialize + DeserializeOwned,
{
    let text = encode(subject, value, limit)?;
    let value = serde_json::from_str(&text).map_err(|source| PayloadError::RoundTrip {
        subject: subject.to_string(),
        type_name: std::any::type_name::<T>(),
        source: unquoted(source),
    })?;
    Ok((text, value))
}

/// The value as JSON text, of a value whose type need not be one that is read.
///
/// # Errors
/// As [`round_trip`].
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

/// The value as JSON text, for whoever reads it back as another type.
///
/// # Errors
/// [`PayloadError::Encode`], [`PayloadError::TooLarge`].
pub fn encode<T: Serialize + ?Sized>(
    subject: &(impl fmt::Display + ?Sized),
    value: &T,
    limit: usize,
) -> Result<String, PayloadError> {
    let text = serde_json::to_string(value).map_err(|source| PayloadError::Encode {
        subject: subject.to_string(),
        type_name: std::any::type_name::<T>(),
        source,
    })?;
    if text.len() > limit {
        return Err(PayloadError::TooLarge { subject: subject.to_string(), bytes: text.len(), limit });
    }
    Ok(text)
}
