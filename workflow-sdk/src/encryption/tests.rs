use super::*;
use workflow_engine::model::{AttemptStatus, PayloadPlace, RunId, StepKind};

fn key(id: &str, seed: u8) -> EncryptionKey {
    let mut bytes = [0; KEY_BYTES];
    bytes.iter_mut().zip(seed..).for_each(|(byte, value)| *byte = value);
    EncryptionKey::new(id, bytes).unwrap()
}

fn run() -> RunId {
    "018f0000-0000-7000-8000-000000000001".parse().unwrap()
}

fn context() -> PayloadContext<'static> {
    let context = PayloadContext::new(run(), PayloadPlace::StepOutput { key: "charge:1" });
    context.of_row(StepKind::Step, AttemptStatus::Succeeded)
}

/// The expected text was made by libsodium's `crypto_aead_xchacha20poly1305_ietf_encrypt` from this
/// key, nonce and context. Payloads that are written today must stay readable for ever, by other
/// programs too.
#[test]
fn a_known_payload_has_its_known_form() {
    let encryption = Encryption::new(key("k1", 0));
    let mut nonce = [0; NONCE_BYTES];
    nonce.iter_mut().zip(64..).for_each(|(byte, value)| *byte = value);
    let known = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXrxt1EbmEWyy7xvrp/wONVuxx9eem6nZxK4by";
    let sealed = encryption.seal(nonce, &context(), br#"{"paid":42}"#).unwrap();
    assert_eq!(base64::engine::general_purpose::STANDARD.encode(&sealed.bytes), known);
    assert_eq!(encryption.decode(&context(), &sealed).unwrap(), br#"{"paid":42}"#);
}

#[test]
fn every_payload_round_trips_under_a_fresh_nonce() {
    let encryption = Encryption::new(key("k1", 7));
    for length in [0, 1, 15, 16, 17, 63, 64, 65, 4096, 100_000] {
        let plain: Vec<u8> = (0..length).map(|_| fastrand::u8(..)).collect();
        let first = encryption.encode(&context(), &plain).unwrap();
        let second = encryption.encode(&context(), &plain).unwrap();
        assert_ne!(first, second, "a nonce is never used twice");
        assert_eq!(first.bytes.len(), length + NONCE_BYTES + 16);
        assert_eq!(encryption.decode(&context(), &first).unwrap(), plain);
    }
}

#[test]
fn every_changed_bit_length_key_or_place_is_refused() {
    let encryption = Encryption::new(key("k1", 7)).with_old(key("k0", 9)).unwrap();
    let sealed = encryption.encode(&context(), b"\"a secret\"").unwrap();
    let refused = |coded: &CodedPayload, context: &PayloadContext<'_>| {
        assert_eq!(encryption.decode(context, coded), Err(CodecError::NotAuthentic), "{coded:?} {context}");
    };
    for byte in 0..sealed.bytes.len() {
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed.bytes[byte] ^= 1 << bit;
            refused(&changed, &context());
        }
    }
    for length in 0..sealed.bytes.len() {
        refused(&CodedPayload::new("k1", &sealed.bytes[..length]), &context());
    }
    refused(&CodedPayload::new("k0", sealed.bytes.clone()), &context());
    let other_run = PayloadContext::new(RunId::generate(), context().place);
    let places = [PayloadPlace::Input, PayloadPlace::Output, PayloadPlace::Error, PayloadPlace::FinalError];
    let places = places.into_iter().chain([
        PayloadPlace::StepOutput { key: "charge" },
        PayloadPlace::StepError { key: "charge:1" },
        PayloadPlace::Signal { name: "charge:1" },
        PayloadPlace::Item { key: "charge:1", number: 0 },
    ]);
    refused(&sealed, &other_run);
    let of_step = |place| PayloadContext::new(run(), place).of_row(StepKind::Step, AttemptStatus::Succeeded);
    places.for_each(|place| refused(&sealed, &of_step(place)));
    refused(&sealed, &PayloadContext::new(run(), context().place));
    refused(&sealed, &context().of_row(StepKind::Sleep, AttemptStatus::Succeeded));
    refused(&sealed, &context().of_row(StepKind::Step, AttemptStatus::Failed));
}

#[test]
fn keys_rotate_and_a_missing_key_is_refused() {
    let old = Encryption::new(key("k1", 1)).encode(&context(), b"1").unwrap();
    let rotated = Encryption::new(key("k2", 2)).with_old(key("k1", 1)).unwrap();
    assert_eq!(rotated.decode(&context(), &old).unwrap(), b"1");
    assert_eq!(rotated.encode(&context(), b"2").unwrap().key_id, "k2");
    let without = Encryption::new(key("k2", 2));
    assert_eq!(without.decode(&context(), &old), Err(CodecError::UnknownKey));
    assert!(matches!(without.with_old(key("k2", 3)), Err(InvalidKey::Twice { id }) if id == "k2"));
}

#[test]
fn keys_are_read_from_base64_and_shown_nowhere() {
    let text = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    for text in [text, text.trim_end_matches('='), &format!("  {text}\n")] {
        let read = EncryptionKey::from_base64("k", text).unwrap();
        assert_eq!(*read.bytes, *key("k", 0).bytes);
        let shown = format!("{read:?}");
        let shown = shown + &format!("{:?}", Encryption::new(read));
        assert!(shown.contains("\"k\"") && !shown.contains("AAEC") && !shown.contains("1, 2"), "{shown}");
    }
    let refused = |id: &str, text: &str| {
        let error = EncryptionKey::from_base64(id, text).unwrap_err();
        assert!(!error.to_string().contains("c2VjcmV0") && !format!("{error:?}").contains("c2VjcmV0"), "{error:?}");
        error
    };
    assert!(matches!(refused("k", "c2VjcmV0"), InvalidKey::Length { bytes: 6, .. }));
    assert!(matches!(refused("k", "c2VjcmV0 no base64!"), InvalidKey::Base64 { .. }));
    for id in ["", "a b", "a:b", "ä", &"x".repeat(65)] {
        assert!(matches!(refused(id, text), InvalidKey::Id { .. }), "{id:?}");
    }
}
