//! Signatures of webhooks, ours and those of others.
//!
//! A webhook that this project sends carries the three headers of the convention "Standard
//! Webhooks": `webhook-id`, `webhook-timestamp` (seconds since 1970) and `webhook-signature`, which
//! is `v1,` and the HMAC-SHA256 of `id.timestamp.body` in Base64. A receiver that keeps ids for as
//! long as its tolerance refuses replays.
//!
//! Everything here is pure: the caller gives the time. Comparisons take constant time.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The difference of clocks that a receiver should tolerate, in both directions.
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// A webhook is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// No signature of the header is one of this secret and body.
    #[error("the signature of the webhook does not fit: check the secret on both sides")]
    Mismatch,
    /// The header of the time or of the signature cannot be read.
    #[error("the webhook has no signature that can be read")]
    Malformed,
    /// The time of the webhook is too far from that of the receiver.
    #[error("the webhook is too old or from the future: check the clocks on both sides")]
    Expired,
}

/// The headers of a webhook, as they are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Webhook<'a> {
    /// The header `webhook-id`: identical in every attempt, so that a receiver can drop
    /// repetitions.
    pub id: &'a str,
    /// The header `webhook-timestamp`: seconds since 1970.
    pub timestamp: u64,
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl Webhook<'_> {
    /// Returns the header `webhook-signature`.
    ///
    /// ```
    /// use workflow_flows::signature::{TOLERANCE, Webhook};
    ///
    /// let webhook = Webhook { id: "msg-1", timestamp: 1_700_000_000, body: b"{}" };
    /// let header = webhook.sign(b"secret");
    /// assert!(webhook.verify(&[b"new", b"secret"], &header, 1_700_000_100, TOLERANCE).is_ok());
    /// assert!(webhook.verify(&[b"other"], &header, 1_700_000_100, TOLERANCE).is_err());
    /// ```
    #[must_use]
    pub fn sign(&self, secret: &[u8]) -> String {
        format!("v1,{}", STANDARD.encode(self.mac(secret).finalize().into_bytes()))
    }

    /// Checks a header that has one or more signatures, against one or more secrets, of which the
    /// old ones stay valid while a secret is changed. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`SignatureError`] if no signature fits, or the time is too far from `now`.
    pub fn verify(&self, secrets: &[&[u8]], header: &str, now: u64, tolerance: Duration) -> Result<(), SignatureError> {
        let signatures: Vec<Vec<u8>> = header
            .split_ascii_whitespace()
            .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
            .collect();
        if signatures.is_empty() {
            return Err(SignatureError::Malformed);
        }
        let fits = |secret: &&[u8]| signatures.iter().any(|given| self.mac(secret).verify_slice(given).is_ok());
        if !secrets.iter().any(fits) {
            return Err(SignatureError::Mismatch);
        }
        // After the signature: a forger learns nothing about the clock.
        if self.timestamp.abs_diff(now) > tolerance.as_secs() {
            return Err(SignatureError::Expired);
        }
        Ok(())
    }

    fn mac(&self, secret: &[u8]) -> Hmac<Sha256> {
        let mut mac = keyed(secret);
        for part in [self.id.as_bytes(), b".", self.timestamp.to_string().as_bytes(), b".", self.body] {
            mac.update(part);
        }
        mac
    }
}

/// Checks the signature of a body alone, in hexadecimal with an optional `sha256=`, as many
/// services send it (`X-Hub-Signature-256`). It has no time, so a webhook can be replayed: give the
/// start a key from the body.
///
/// ```
/// use workflow_flows::signature::verify_body;
///
/// let header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
/// assert!(verify_body(&[b"It's a Secret to Everybody"], b"Hello, World!", header).is_ok());
/// assert!(verify_body(&[b"It's a Secret to Everybody"], b"Hello, World?", header).is_err());
/// ```
///
/// # Errors
/// [`SignatureError`] if the header is not one, or fits no secret.
pub fn verify_body(secrets: &[&[u8]], body: &[u8], header: &str) -> Result<(), SignatureError> {
    let header = header.trim();
    let given = unhex(header.strip_prefix("sha256=").unwrap_or(header)).ok_or(SignatureError::Malformed)?;
    let fits = |secret: &&[u8]| {
        let mut mac = keyed(secret);
        mac.update(body);
        mac.verify_slice(&given).is_ok()
    };
    if secrets.iter().any(fits) { Ok(()) } else { Err(SignatureError::Mismatch) }
}

/// An HMAC with this key. Longer keys are hashed first, as RFC 2104 says.
pub(crate) fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    use hmac::digest::block_api::BlockSizeUser;
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    debug_assert_eq!(block.len(), Sha256::block_size());
    let hashed;
    let secret = if secret.len() > block.len() {
        hashed = <Sha256 as hmac::digest::Digest>::digest(secret);
        hashed.as_slice()
    } else {
        secret
    };
    block[..secret.len()].copy_from_slice(secret);
    Hmac::new(&block)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEBHOOK: Webhook<'_> =
        Webhook { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: b"{\"test\": 2432232314}" };

    #[test]
    fn a_signature_is_that_of_the_convention() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(WEBHOOK.sign(&secret), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn forged_webhooks_are_refused() {
        let now = WEBHOOK.timestamp + 10;
        let good = WEBHOOK.sign(b"secret");
        let check = |webhook: Webhook<'_>, header: &str, now| webhook.verify(&[b"secret"], header, now, TOLERANCE);
        assert_eq!(check(WEBHOOK, &good, now), Ok(()));
        assert_eq!(check(WEBHOOK, &format!("v1,AAAA v2,x {good}"), now), Ok(()), "one of several");
        for forged in [
            Webhook { id: "other", ..WEBHOOK },
            Webhook { timestamp: WEBHOOK.timestamp + 1, ..WEBHOOK },
            Webhook { body: b"{\"test\": 2432232315}", ..WEBHOOK },
            Webhook { body: b"", ..WEBHOOK },
        ] {
            assert_eq!(check(forged, &good, now), Err(SignatureError::Mismatch), "{forged:?}");
        }
        assert_eq!(check(WEBHOOK, &WEBHOOK.sign(b"other"), now), Err(SignatureError::Mismatch));
        assert_eq!(check(WEBHOOK, "v1,AAAA", now), Err(SignatureError::Mismatch), "a shorter one");
        for malformed in ["", "v1,", "v1,%", "v0,AAAA", &good[3..]] {
            let refused = check(WEBHOOK, malformed, now);
            assert!(refused.is_err(), "{malformed:?}");
        }
        for late in [WEBHOOK.timestamp + 301, WEBHOOK.timestamp - 301, 0, u64::MAX] {
            assert_eq!(check(WEBHOOK, &good, late), Err(SignatureError::Expired), "{late}");
        }
        assert_eq!(WEBHOOK.verify(&[], &good, now, TOLERANCE), Err(SignatureError::Mismatch), "no secret fits nothing");
    }

    #[test]
    fn a_signature_of_a_body_is_hexadecimal() {
        for malformed in ["", "sha256=", "sha256=abc", "sha256=zz", "sha1=00", "sha256=\u{e9}\u{e9}"] {
            assert_eq!(verify_body(&[b"k"], b"", malformed), Err(SignatureError::Malformed), "{malformed:?}");
        }
        assert_eq!(verify_body(&[b"k"], b"", "sha256=00"), Err(SignatureError::Mismatch));
        // Case 6 of RFC 4231: a key longer than a block.
        let header = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        let body = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(verify_body(&[&[0xaa; 131]], body, header), Ok(()));
    }
}
