//! Removes values from serde's decoding errors, because the texts of errors go into the database
//! and into logs.

use serde_json::error::Category;

/// Returns the error without the value that its text quotes.
pub fn unquoted(error: serde_json::Error) -> serde_json::Error {
    match error.classify() {
        // For text that is not JSON, or that ends too early, serde_json quotes nothing.
        Category::Io | Category::Syntax | Category::Eof => error,
        Category::Data => serde::de::Error::custom(redacted(&error.to_string(), |kind| kind)),
    }
}

/// The reason of a decoder of an author's type that panicked.
pub const DECODER_PANICKED: &str = "its Deserialize panicked";

/// Returns serde's reason without the value that it quotes.
pub fn without_values(reason: &str) -> String {
    redacted(reason, |_| "found ")
}

/// Removes the value from `reason`. `word` chooses the words for the kind of the error.
fn redacted(reason: &str, word: impl Fn(&'static str) -> &'static str) -> String {
    let place = reason.rfind(" at line ").map_or("", |at| &reason[at..]);
    let said = reason.strip_suffix(place).unwrap_or(reason);
    if ["missing field", "duplicate field", "EOF", DECODER_PANICKED].iter().any(|known| said.starts_with(known)) {
        return reason.to_owned();
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let found = kinds.into_iter().find_map(|kind| Some((word(kind), said.strip_prefix(kind)?)));
    let (Some((kind, found)), Some((_, expected))) = (found, said.rsplit_once(", expected ")) else {
        return format!("it is refused{place}");
    };
    let found: String = found.chars().take_while(|c| c.is_ascii_alphabetic() || *c == ' ').collect();
    format!("{kind}{}, expected {expected}{place}", found.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_contains_no_value() {
        let reason = |text: &str| without_values(&serde_json::from_str::<Vec<u8>>(text).unwrap_err().to_string());
        assert_eq!(reason("\"secret, expected x\""), "found string, expected a sequence at line 1 column 20");
        assert_eq!(reason("[7777]"), "found integer, expected u8 at line 1 column 5");
        assert_eq!(reason("null"), "found null, expected a sequence at line 1 column 4");
        assert_eq!(reason("[1"), "EOF while parsing a list at line 1 column 2");
        let variant = "unknown variant `secret`, expected `a` or `b` at line 1 column 8";
        assert_eq!(without_values(variant), "it is refused at line 1 column 8");
        assert_eq!(without_values("card 4111 is bad"), "it is refused");
        assert_eq!(
            without_values("missing field `cents` at line 1 column 2"),
            "missing field `cents` at line 1 column 2"
        );
    }

    #[test]
    fn an_error_keeps_its_line_and_column_and_no_value() {
        let error = unquoted(serde_json::from_str::<u8>("\n \"secret\"").unwrap_err());
        assert_eq!(error.to_string(), "invalid type: string, expected u8 at line 2 column 9");
        assert!(!format!("{error:?}").contains("secret"));
        assert_eq!((error.line(), error.column()), (2, 9));
        let syntax = unquoted(serde_json::from_str::<u8>("secret").unwrap_err());
        assert_eq!(syntax.to_string(), "expected value at line 1 column 1");
    }
}
