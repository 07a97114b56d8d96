//! Tokens that decide one gate: for links in mails and messages.
//!
//! A token names a run with its generation, a step and a visit, and carries an HMAC of them. It
//! needs no table, is good for this gate alone, and says nothing about the rights of its bearer
//! elsewhere. The engine accepts one decision for each gate, and none after its end.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::signature::keyed;

/// A gate: an approval or a decision of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gate {
    /// The id of the run.
    pub run: String,
    /// How often the run has continued as new before. The visits of each generation are counted
    /// from 0.
    pub generation: u64,
    /// The key of the step.
    pub key: String,
    /// How often this generation of the run has come to this step before.
    pub visit: u32,
}

/// A text is not a token of these secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is not valid: ask for a new link")]
pub struct InvalidToken;

/// Issues and opens tokens.
///
/// ```
/// use workflow_flows::token::{Gate, Tokens};
///
/// let tokens = Tokens::new(b"a secret of at least 32 random bytes").unwrap();
/// let gate = Gate { run: "0199-run".to_owned(), generation: 0, key: "gate".to_owned(), visit: 0 };
/// let token = tokens.issue(&gate);
/// assert!(token.starts_with("st_"));
/// assert_eq!(tokens.open(&token), Ok(gate));
/// ```
#[derive(Clone)]
pub struct Tokens {
    secrets: Vec<Vec<u8>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// A secret is shorter than 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret of tokens is shorter than 32 bytes: generate one, for example by `openssl rand 32`")]
pub struct ShortSecret;

/// The beginning of every token. Scanners for leaked secrets can search for it.
const PREFIX: &str = "st_";
/// Keeps these codes apart from others that have the same secret.
const PURPOSE: &[u8] = b"workflow gate 1";
/// The bytes of an HMAC-SHA256.
const CODE: usize = 32;
/// The longest token that is looked at, in bytes.
const LONGEST: usize = 2_048;

impl Tokens {
    /// Issues and opens tokens with this secret, of at least 32 bytes.
    ///
    /// # Errors
    /// [`ShortSecret`].
    pub fn new(secret: impl Into<Vec<u8>>) -> Result<Self, ShortSecret> {
        let secret = secret.into();
        if secret.len() < CODE { Err(ShortSecret) } else { Ok(Self { secrets: vec![secret] }) }
    }

    /// Opens also tokens that were issued with this older secret.
    ///
    /// # Errors
    /// [`ShortSecret`].
    pub fn and_older(mut self, secret: impl Into<Vec<u8>>) -> Result<Self, ShortSecret> {
        self.secrets.append(&mut Self::new(secret)?.secrets);
        Ok(self)
    }

    /// Returns the token of a gate. It fits into a URL as it is.
    #[must_use]
    pub fn issue(&self, gate: &Gate) -> String {
        let mut bytes = gate.visit.to_be_bytes().to_vec();
        // The id of a run has no dot.
        let run = match gate.generation {
            0 => gate.run.clone(),
            generation => format!("{}.{generation}", gate.run),
        };
        bytes.extend(u16::try_from(run.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(run.as_bytes());
        bytes.extend(gate.key.as_bytes());
        let first = self.secrets.first().map(Vec::as_slice).unwrap_or_default();
        let code = mac(first, &bytes).finalize().into_bytes();
        bytes.extend(code);
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Returns the gate of a token.
    ///
    /// # Errors
    /// [`InvalidToken`], whatever is wrong with it.
    pub fn open(&self, token: &str) -> Result<Gate, InvalidToken> {
        let encoded = token.strip_prefix(PREFIX).filter(|encoded| encoded.len() <= LONGEST).ok_or(InvalidToken)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| InvalidToken)?;
        let (content, code) = bytes.split_last_chunk::<CODE>().ok_or(InvalidToken)?;
        if !self.secrets.iter().any(|secret| mac(secret, content).verify_slice(code).is_ok()) {
            return Err(InvalidToken);
        }
        let (visit, content) = content.split_first_chunk::<4>().ok_or(InvalidToken)?;
        let (length, content) = content.split_first_chunk::<2>().ok_or(InvalidToken)?;
        let (run, key) = content.split_at_checked(usize::from(u16::from_be_bytes(*length))).ok_or(InvalidToken)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| InvalidToken);
        let (key, visit) = (text(key)?, u32::from_be_bytes(*visit));
        let run = text(run)?;
        let (run, generation) = match run.split_once('.') {
            Some((run, generation)) => (run.to_owned(), generation.parse().map_err(|_| InvalidToken)?),
            None => (run, 0),
        };
        Ok(Gate { run, generation, key, visit })
    }
}

fn mac(secret: &[u8], content: &[u8]) -> Hmac<Sha256> {
    let mut mac = keyed(secret);
    mac.update(PURPOSE);
    mac.update(content);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn gate(run: &str, key: &str, visit: u32) -> Gate {
        Gate { run: run.to_owned(), generation: 0, key: key.to_owned(), visit }
    }

    #[test]
    fn a_token_opens_to_its_gate_alone() {
        let tokens = Tokens::new(SECRET).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        let later = |generation| Gate { generation, ..gate("ab", "c", 0) };
        let gates =
            [gate("ab", "c", 0), gate("a", "bc", 0), gate("ab", "c", 1), gate("", "abc", 0), gate("abc", "", 0)];
        for gate in gates.into_iter().chain([later(1), later(u64::MAX)]) {
            let token = tokens.issue(&gate);
            assert_eq!(tokens.open(&token), Ok(gate));
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{token}");
            assert!(seen.insert(token));
        }
    }

    #[test]
    fn forged_tokens_are_refused() {
        let tokens = Tokens::new(SECRET).unwrap();
        let token = tokens.issue(&gate("run", "each/3/gate", 2));
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(tokens.open(std::str::from_utf8(&forged).unwrap()), Err(InvalidToken), "changed at {at}");
            assert_eq!(tokens.open(&token[..at]), Err(InvalidToken), "cut at {at}");
        }
        assert_eq!(tokens.open(&format!("{token}A")), Err(InvalidToken));
        assert_eq!(tokens.open(&format!("st_{}", "A".repeat(1_000_000))), Err(InvalidToken));
        assert_eq!(Tokens::new(b"another secret of 32 bytes, long".to_vec()).unwrap().open(&token), Err(InvalidToken));
    }

    #[test]
    fn a_secret_is_replaced_without_breaking_links() {
        let old = Tokens::new(SECRET).unwrap().issue(&gate("r", "k", 0));
        let tokens = Tokens::new(b"a new secret of 32 bytes or more".to_vec()).unwrap().and_older(SECRET).unwrap();
        assert_eq!(tokens.open(&old), Ok(gate("r", "k", 0)));
        assert_ne!(tokens.issue(&gate("r", "k", 0)), old);
        assert!(Tokens::new(b"short".to_vec()).is_err());
        assert!(!format!("{tokens:?}").contains("secret of"));
    }
}
