#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use crate::model::{
    CodecError, CodedPayload, ErrorKind, PayloadCodec, PayloadContext, PayloadPlace, RunId, StoredError,
    UnreadablePayload, UnreadableReason,
};

use super::{Coding, DatabaseErrorKind};

/// A codec that returns its input, refuses a payload of one byte, and has one key.
#[derive(Debug)]
struct Loose {
    key: &'static str,
    inflate: usize,
}

impl PayloadCodec for Loose {
    fn encode(&self, _: &PayloadContext<'_>, plain: &[u8]) -> Result<CodedPayload, CodecError> {
        Ok(CodedPayload::new(self.key, plain.repeat(self.inflate)))
    }

    fn decode(&self, _: &PayloadContext<'_>, coded: &CodedPayload) -> Result<Vec<u8>, CodecError> {
        match coded.bytes.len() {
            _ if coded.key_id != self.key => Err(CodecError::UnknownKey),
            1 => Err(CodecError::NotAuthentic),
            _ => Ok(coded.bytes.clone()),
        }
    }
}

fn coding(key: &'static str, inflate: usize) -> Coding {
    Coding::new(Arc::new(Loose { key, inflate }))
}

fn context() -> PayloadContext<'static> {
    PayloadContext::new(RunId::generate(), PayloadPlace::Input)
}

#[test]
fn whatever_is_stored_is_decoded_or_refused() {
    let (loose, none, context) = (coding("k", 1), Coding::default(), context());
    let whole = loose.encode(&context, "{\"card\":\"4111 1111 1111 1111\"}").unwrap();
    assert_eq!(loose.decode(&context, &whole).unwrap(), "{\"card\":\"4111 1111 1111 1111\"}");
    let pieces =
        ["coded:", "1:", "k:", "k2:", ":", "2:", "e30=", "AA==", "=", "!", "\u{0}", "é", " ", "{}", "unreadable:", ""];
    for _ in 0..200_000 {
        let text = if fastrand::bool() {
            let mut bytes = whole.clone().into_bytes();
            let at = fastrand::usize(..bytes.len());
            match fastrand::u8(..3) {
                0 => bytes[at] = fastrand::u8(..),
                1 => bytes.truncate(at),
                _ => drop(bytes.remove(at)),
            }
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            (0..fastrand::usize(..6)).map(|_| pieces[fastrand::usize(..pieces.len())]).collect()
        };
        for coding in [&loose, &none] {
            match coding.decode(&context, &text) {
                Ok(plain) => assert!(text.starts_with("coded:1:k:") || plain == text, "{text:?}"),
                Err(unreadable) => assert!(text.starts_with("coded:"), "{text:?}: {unreadable}"),
            }
        }
        if text.starts_with("coded:") {
            assert!(none.decode(&context, &text).is_err(), "{text:?} passes for a plain payload");
        }
    }
}

/// A text that begins like an envelope is not JSON, so no payload of an author can be mistaken for
/// one.
#[test]
fn no_json_is_an_envelope() {
    for text in ["coded:1:k:e30=", "coded:", "unreadable:{}"] {
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(text).is_err());
        let json = serde_json::to_string(text).unwrap();
        assert_eq!(Coding::default().decode(&context(), &json).unwrap(), json);
        assert_eq!(coding("k", 1).decode(&context(), &json).unwrap(), json);
    }
}

#[test]
fn a_codec_that_makes_what_cannot_be_stored_is_refused() {
    let error = coding("k 1", 1).encode(&context(), "1").unwrap_err();
    assert_eq!(error.kind, DatabaseErrorKind::Codec);
    assert!(error.source.to_string().contains("is not a key id"), "{}", error.source);
    let error = coding("k", 100_000).encode(&context(), &"1".repeat(1000)).unwrap_err();
    assert_eq!(error.kind, DatabaseErrorKind::Invalid);
    assert!(error.source.to_string().contains("bytes when encoded"), "{}", error.source);
}

#[test]
fn what_stands_in_the_place_of_a_payload_is_not_stored() {
    let (loose, none, context) = (coding("k", 1), Coding::default(), context());
    let mut text = loose.encode(&context, "1").unwrap();
    none.show(&context, &mut text);
    for coding in [&loose, &none] {
        let error = coding.encode(&context, &text).unwrap_err();
        assert_eq!(error.kind, DatabaseErrorKind::Codec);
        let why = error.source.downcast_ref::<UnreadablePayload>().unwrap();
        assert_eq!(why.reason, UnreadableReason::NoCodec);
    }
}

#[test]
fn an_error_keeps_what_is_no_payload_in_the_clear() {
    let (loose, context) = (coding("k", 1), context());
    let error = StoredError::new(ErrorKind::Application, "card 4111").fatal().of_step("charge");
    let stored = loose.encode_error(&context, &error).unwrap();
    let text = serde_json::to_string(&stored).unwrap();
    assert!(!text.contains("4111") && text.contains("application") && text.contains("charge"), "{text}");
    let mut read = stored.clone();
    loose.open_error(&context, &mut read).unwrap();
    assert_eq!(read, error);
    let mut seen = stored;
    Coding::default().show_error(&context, &mut seen);
    assert_eq!((seen.kind, seen.fatal, seen.step_key.as_deref()), (ErrorKind::Application, true, Some("charge")));
    let why = UnreadablePayload::in_place_of_error(&seen).unwrap();
    assert_eq!(why.reason, UnreadableReason::NoCodec);
    // An error that a database has written itself.
    let mut plain = StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline");
    loose.open_error(&context, &mut plain).unwrap();
    assert_eq!(plain.kind, ErrorKind::Deadline);
}
