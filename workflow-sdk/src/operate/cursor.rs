use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use workflow_engine::model::RunId;

use super::{OperateError, OperateErrorCode, Query};

/// The place between two items of a list. Its text means something only to the query, or the other
/// list, of its page.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Cursor(String);

/// The version of the text, its first character.
const VERSION: char = '1';
/// An id, and the hash of the query.
const BYTES: usize = 16 + 8;

impl Cursor {
    /// Returns the cursor of a text, which is checked where the page is read.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the cursor at a run of the list of this query.
    pub(super) fn at(run: RunId, query: &Query) -> Self {
        Self::at_id(run.as_uuid(), &query.to_string())
    }

    /// Returns the cursor at this id of the list that the text identifies.
    pub(super) fn at_id(id: Uuid, list: &str) -> Self {
        let mut bytes = id.as_bytes().to_vec();
        bytes.extend(hash(list).to_be_bytes());
        Self::of_bytes(&bytes)
    }

    /// Returns the cursor at a place of another list.
    pub(super) fn at_place<T: Serialize>(place: &T, list: &str) -> Result<Self, OperateError> {
        let unwritten = |_| refused("the place of the page cannot be written", AGAIN);
        let mut bytes = hash(list).to_be_bytes().to_vec();
        bytes.extend(serde_json::to_vec(place).map_err(unwritten)?);
        Ok(Self::of_bytes(&bytes))
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        Self(format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Returns the place of another list at which the cursor is.
    pub(super) fn place<T: DeserializeOwned>(&self, list: &str) -> Result<T, OperateError> {
        let bytes = self.bytes()?;
        let (of_list, place) = bytes.split_first_chunk().ok_or_else(damaged)?;
        if u64::from_be_bytes(*of_list) != hash(list) {
            return Err(refused("the cursor belongs to a page of another list", AGAIN));
        }
        serde_json::from_slice(place).map_err(|_| damaged())
    }

    fn bytes(&self) -> Result<Vec<u8>, OperateError> {
        match self.0.chars().next() {
            Some(VERSION) => (),
            Some(version) if version.is_ascii_digit() => {
                return Err(refused("the cursor is of another release", AGAIN));
            }
            _ => return Err(refused("the text is not a cursor", UNCHANGED)),
        }
        self.0.get(1..).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or_else(damaged)
    }

    /// Returns the run at which the cursor is.
    pub(super) fn run(&self, query: &Query) -> Result<RunId, OperateError> {
        self.id(&query.to_string()).map(RunId::from)
    }

    /// Returns the id at which the cursor of the list is that the text identifies.
    pub(super) fn id(&self, list: &str) -> Result<Uuid, OperateError> {
        let bytes = <[u8; BYTES]>::try_from(self.bytes()?).map_err(|_| damaged())?;
        let (mut id, mut of_query) = ([0; 16], [0; 8]);
        id.copy_from_slice(&bytes[..16]);
        of_query.copy_from_slice(&bytes[16..]);
        if u64::from_be_bytes(of_query) != hash(list) {
            return Err(refused("the cursor belongs to a page of another query", AGAIN));
        }
        Ok(Uuid::from_bytes(id))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const AGAIN: &str = "read the first page again";
const UNCHANGED: &str = "pass `next` or `previous` of a page unchanged";

fn refused(message: &str, help: &str) -> OperateError {
    OperateError::new(OperateErrorCode::BadCursor, message, help)
}

fn damaged() -> OperateError {
    refused("the cursor is damaged", UNCHANGED)
}

/// Returns the hash of the text of a query or of a list, which is the same in every process
/// (FNV-1a).
pub(super) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_cursor_is_of_its_list_and_of_no_other() {
        let cursor = Cursor::at_place(&"mail", "queues").unwrap();
        assert_eq!(cursor.place::<String>("queues"), Ok("mail".into()));
        let says = |cursor: &Cursor, list| cursor.place::<String>(list).unwrap_err().message;
        assert!(says(&cursor, "gates of mail").contains("another list"));
        assert!(cursor.place::<u32>("queues").unwrap_err().message.contains("damaged"));
        assert!(says(&Cursor::new("1AAAA"), "queues").contains("damaged"));
        assert!(says(&Cursor::new("x"), "queues").contains("not a cursor"));
        assert!(cursor.run(&Query::new()).is_err());
    }

    #[test]
    fn a_cursor_is_of_its_query_and_of_no_other() {
        let (query, other): (Query, Query) = ("status:failed".parse().unwrap(), Query::new());
        let id = RunId::generate();
        let cursor = Cursor::at(id, &query);
        assert_eq!(cursor.run(&query), Ok(id));
        assert!(cursor.run(&other).unwrap_err().message.contains("another query"));
        let text = cursor.as_str();
        for (text, says) in [
            (String::new(), "not a cursor"),
            ("x".into(), "not a cursor"),
            (format!("2{}", &text[1..]), "another release"),
            (text[..20].into(), "damaged"),
            (format!("{text}A"), "damaged"),
            ("1é".into(), "damaged"),
        ] {
            let error = Cursor::new(text.clone()).run(&query).unwrap_err();
            assert_eq!(error.code, OperateErrorCode::BadCursor);
            assert!(error.message.contains(says), "{text}: {error}");
        }
    }
}
