use std::collections::BTreeSet;

use workflow_sdk::operate::{PayloadText, StoredPayload};
use workflow_sdk::{Explanation, StoredError};

/// Stands in place of a value.
const REDACTED: &str = "\"[redacted]\"";

/// Which fields of payloads are left out of answers, by their names. The database keeps them.
///
/// A field is left out if one of the words of its name is such a name, in any case: `card` leaves
/// out `card`, `Card`, `cards`, `cardNumber`, `card_number` and `debit-card`, and not `discard`.
/// The whole value of the field is replaced by `"[redacted]"`. Other text, such as the message of
/// an error, is shown as it is.
///
/// The default leaves out `password`, `token`, `secret`, `authorization` and `card`.
///
/// ```
/// use workflow_http::Redact;
///
/// let redact = Redact::names(["iban", "token"]);
/// let shown = redact.json(r#"{"iban": {"of": "DE"}, "amount": 1.10, "accessToken": 4}"#);
/// assert_eq!(
///     shown,
///     r#"{"iban": "[redacted]", "amount": 1.10, "accessToken": "[redacted]"}"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "nothing is left out before `Access::redact` has this"]
pub struct Redact {
    names: BTreeSet<String>,
}

impl Default for Redact {
    fn default() -> Self {
        Self::names(["password", "token", "secret", "authorization", "card"])
    }
}

impl Redact {
    /// Leaves out the fields of these names, and no others.
    pub fn names<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: names.into_iter().map(|name| name.into().to_lowercase()).collect() }
    }

    /// Leaves out nothing.
    pub fn nothing() -> Self {
        Self { names: BTreeSet::new() }
    }

    /// Returns a JSON text without the values of the fields. All other characters stay as they are,
    /// so that numbers keep their digits.
    #[must_use]
    pub fn json(&self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let (mut copied, mut at) = (0, 0);
        while let Some(begin) = text.get(at..).and_then(|rest| rest.find('"')).map(|found| at + found) {
            let end = end_of_string(text, begin);
            at = end;
            let Some(value) = value_behind(text, end) else { continue };
            if !self.has(text.get(begin..end).unwrap_or_default()) {
                continue;
            }
            shown.push_str(text.get(copied..value).unwrap_or_default());
            shown.push_str(REDACTED);
            at = end_of_value(text, value);
            copied = at;
        }
        shown.push_str(text.get(copied..).unwrap_or_default());
        shown
    }

    /// Returns `true` if the fields of this name, which is a JSON string, are left out.
    fn has(&self, quoted: &str) -> bool {
        let name: String = serde_json::from_str(quoted).unwrap_or_default();
        let has = |word: &str| {
            let plain = word.trim_end_matches(|c: char| c.is_ascii_digit());
            [word, plain, plain.trim_end_matches('s')].into_iter().any(|word| self.names.contains(word))
        };
        has(&name.to_lowercase()) || words(&name).iter().any(|word| has(word))
    }

    pub(crate) fn payload(&self, payload: &mut StoredPayload) {
        if let Some(json) = &payload.json {
            payload.json = PayloadText::new(self.json(json.as_str()));
        }
    }

    pub(crate) fn error(&self, error: &mut StoredError) {
        if let Some(payload) = &mut error.payload {
            payload.json = self.json(&payload.json);
        }
    }

    pub(crate) fn explanation(&self, explanation: &mut Explanation) {
        match explanation {
            Explanation::Ended { error: Some(error), .. } => self.error(error),
            Explanation::Retrying { error, .. } | Explanation::Diverged { error, .. } => self.error(error),
            _ => {}
        }
    }
}

/// Returns the words of a name in lower case: those of `cardNumber`, `CARDNumber` and `card_number`
/// are equal.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        let ends_capitals = c.is_uppercase() && rest.peek().is_some_and(|next| next.is_lowercase());
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) || ends_capitals {
            words.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Returns the place behind the string that begins at this quote.
fn end_of_string(text: &str, begin: usize) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(begin + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the place of the first character from here on that is no space.
fn behind_spaces(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    text.len() - rest.trim_start().len()
}

/// Returns the place of the value, if the string that ends here is the name of a field.
fn value_behind(text: &str, end: usize) -> Option<usize> {
    let colon = behind_spaces(text, end);
    (text.as_bytes().get(colon) == Some(&b':')).then(|| behind_spaces(text, colon + 1))
}

/// Returns the place behind the value that begins here.
fn end_of_value(text: &str, begin: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = begin;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                at = end_of_string(text, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_left_out_by_the_words_of_their_names() {
        let redact = Redact::default();
        for (text, shown) in [
            ("{}", "{}"),
            ("null", "null"),
            ("\"token\"", "\"token\""),
            ("[\"token\", \"card\"]", "[\"token\", \"card\"]"),
            (r#"{"discard":1,"number":1.10e40}"#, r#"{"discard":1,"number":1.10e40}"#),
            (r#"{"a":{"Password" : "x\"}"} ,"b":2}"#, r#"{"a":{"Password" : "[redacted]"} ,"b":2}"#),
            (r#"{"cardNumber":[1,{"x":"]"}],"b":2}"#, r#"{"cardNumber":"[redacted]","b":2}"#),
            (r#"{"API_TOKENS":{"a":[{}]}}"#, r#"{"API_TOKENS":"[redacted]"}"#),
            (r#"{"APIToken":"a","token2":"b"}"#, r#"{"APIToken":"[redacted]","token2":"[redacted]"}"#),
            (r#"{"IDTokens":1,"Discard":2}"#, r#"{"IDTokens":"[redacted]","Discard":2}"#),
            (
                r#"{"x-authorization":true ,"debit-card":null}"#,
                r#"{"x-authorization":"[redacted]" ,"debit-card":"[redacted]"}"#,
            ),
            (r#"{"to\u006ben":-1.5}"#, r#"{"to\u006ben":"[redacted]"}"#),
            (r#"{"é":"é","secret":"é","ü":[ "secret" ]}"#, r#"{"é":"é","secret":"[redacted]","ü":[ "secret" ]}"#),
        ] {
            assert_eq!(redact.json(text), shown);
            assert!(serde_json::from_str::<serde_json::Value>(&redact.json(text)).is_ok(), "{text}");
            assert_eq!(Redact::nothing().json(text), text);
        }
    }

    #[test]
    fn a_text_that_is_not_json_ends_the_search() {
        for text in ["", "\"", "{\"token\"", "{\"token\":", "{\"token\":\"", "{\"token\":[", "\"\\"] {
            let _ = Redact::default().json(text);
        }
    }
}
