//! Encryption of payloads (feature `encryption`).

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use workflow_engine::model::{CodecError, CodedPayload, PayloadCodec, PayloadContext};

/// The length of a key in bytes.
const KEY_BYTES: usize = 32;

/// The length of a nonce in bytes: long enough to draw one at random for each of any number of
/// payloads.
const NONCE_BYTES: usize = 24;

/// The first authenticated bytes. They name the format, so that a later format cannot be taken for
/// this one.
const FORM: &[u8] = b"workflow-sdk/xchacha20-poly1305/1\0";

/// A 256-bit key and its id. The bytes are overwritten when the key is dropped. The `Debug` output
/// shows only the id.
pub struct EncryptionKey {
    id: String,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl EncryptionKey {
    /// Creates a key of these bytes, which must come from a source of randomness, not from a
    /// password. The id is stored in the clear beside each payload. Range of the id: 1 to 64 of
    /// `a-z`, `A-Z`, `0-9`, `.`, `_`, `-`. Never use an id for another key.
    ///
    /// # Errors
    /// [`InvalidKey::Id`] if the id is out of range.
    pub fn new(id: impl Into<String>, bytes: [u8; KEY_BYTES]) -> Result<Self, InvalidKey> {
        let bytes = Zeroizing::new(bytes);
        let id = id.into();
        if CodedPayload::is_key_id(&id) { Ok(Self { id, bytes }) } else { Err(InvalidKey::Id { id }) }
    }

    /// Reads a key from base64, as an environment variable or a secret store holds it. The command
    /// `openssl rand -base64 32` makes one. Surrounding white space is ignored, and padding is
    /// optional.
    ///
    /// # Errors
    /// [`InvalidKey::Base64`], [`InvalidKey::Length`] or [`InvalidKey::Id`].
    pub fn from_base64(id: impl Into<String>, text: &str) -> Result<Self, InvalidKey> {
        const LENIENT: GeneralPurpose = GeneralPurpose::new(
            &STANDARD,
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let id = id.into();
        let Ok(decoded) = LENIENT.decode(text.trim()).map(Zeroizing::new) else {
            return Err(InvalidKey::Base64 { id });
        };
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if decoded.len() != KEY_BYTES {
            return Err(InvalidKey::Length { id, bytes: decoded.len() });
        }
        bytes.copy_from_slice(&decoded);
        Self::new(id, *bytes)
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptionKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The reason why a key cannot be used. The text contains no part of the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The id is out of range.
    #[error("{id:?} is not a key id; use 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")]
    Id {
        /// The id.
        id: String,
    },
    /// The text is not base64.
    #[error("key {id:?} is not base64; make one with: openssl rand -base64 32")]
    Base64 {
        /// The id.
        id: String,
    },
    /// The key does not have 32 bytes.
    #[error("key {id:?} has {bytes} bytes, it needs 32; make one with: openssl rand -base64 32")]
    Length {
        /// The id.
        id: String,
        /// The length in bytes.
        bytes: usize,
    },
    /// Two keys have one id.
    #[error("two keys have the id {id:?}; one id stands for one key for ever, so give the new key another id")]
    Twice {
        /// The id.
        id: String,
    },
}

/// A [`PayloadCodec`] that encrypts every payload with XChaCha20-Poly1305 and a random nonce. It
/// binds each payload to its place: the run, the step key or signal name, and the kind and status
/// of the row are authenticated together with the payload.
///
/// One key encrypts; all keys decrypt. To rotate a key, first give the new key to every program as
/// an old key, then make it the current key. Remove the old key when nothing remains that was
/// encrypted with it.
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_sdk::{Encryption, EncryptionKey};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// // let secret = std::env::var("PAYLOAD_KEY")?;
/// let encryption = Encryption::new(EncryptionKey::from_base64("2026-11", &secret)?);
/// let client = Client::connect("sqlite::memory:").codec(encryption).await?;
/// # let run = client.start_by_name("checkout", &"order 42".into()).await?;
/// # assert_eq!(run.run().await?.input, "\"order 42\"");
/// # Ok(())
/// # }
/// ```
pub struct Encryption {
    current: String,
    ciphers: BTreeMap<String, XChaCha20Poly1305>,
    reads_plain: bool,
}

impl Encryption {
    /// Creates a codec that encrypts with this key.
    #[must_use]
    pub fn new(current: EncryptionKey) -> Self {
        let cipher = cipher(&current);
        Self { current: current.id.clone(), ciphers: BTreeMap::from([(current.id, cipher)]), reads_plain: true }
    }

    /// Adds a key that only decrypts: one that encrypted earlier payloads, or will encrypt later
    /// ones.
    ///
    /// # Errors
    /// [`InvalidKey::Twice`] if a key with this id was given before.
    pub fn with_old(mut self, key: EncryptionKey) -> Result<Self, InvalidKey> {
        if self.ciphers.contains_key(&key.id) {
            return Err(InvalidKey::Twice { id: key.id });
        }
        let cipher = cipher(&key);
        self.ciphers.insert(key.id, cipher);
        Ok(self)
    }

    /// Refuses payloads and errors that are stored unencrypted, except the error with which the
    /// database itself fails a run at its deadline. Default: they are read, so that runs older
    /// than the encryption continue. New payloads are encrypted in either case.
    #[must_use]
    pub fn refuse_plain(mut self) -> Self {
        self.reads_plain = false;
        self
    }

    fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        context: &PayloadContext<'_>,
        plain: &[u8],
    ) -> Result<CodedPayload, CodecError> {
        let cipher = self.ciphers.get(&self.current).ok_or(CodecError::UnknownKey)?;
        let aad = associated(&self.current, context);
        let sealed = cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &aad })
            .map_err(|_| CodecError::Failed("the payload is too long for the cipher".into()))?;
        Ok(CodedPayload::new(&self.current, [&nonce, sealed.as_slice()].concat()))
    }
}

fn cipher(key: &EncryptionKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&*key.bytes).into())
}

fn associated(key_id: &str, context: &PayloadContext<'_>) -> Vec<u8> {
    // A key id contains no NUL byte, so the parts cannot run into each other.
    [FORM, key_id.as_bytes(), b"\0", &context.to_bytes()].concat()
}

impl PayloadCodec for Encryption {
    fn encode(&self, context: &PayloadContext<'_>, plain: &[u8]) -> Result<CodedPayload, CodecError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| CodecError::Failed(format!("no randomness: {error}")))?;
        self.seal(nonce, context, plain)
    }

    fn decode(&self, context: &PayloadContext<'_>, coded: &CodedPayload) -> Result<Vec<u8>, CodecError> {
        let cipher = self.ciphers.get(&coded.key_id).ok_or(CodecError::UnknownKey)?;
        let Some((nonce, sealed)) = coded.bytes.split_first_chunk::<NONCE_BYTES>() else {
            return Err(CodecError::NotAuthentic);
        };
        let aad = associated(&coded.key_id, context);
        cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &aad }).map_err(|_| CodecError::NotAuthentic)
    }

    fn reads_plain(&self) -> bool {
        self.reads_plain
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption")
            .field("current", &self.current)
            .field("keys", &self.ciphers.keys().collect::<Vec<_>>())
            .field("reads_plain", &self.reads_plain)
            .finish()
    }
}

#[cfg(test)]
mod tests;
