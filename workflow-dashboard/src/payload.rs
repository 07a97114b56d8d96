//! Payloads: JSON text in colors and lines, every digit as it is stored.

use maud::{Markup, html};
use workflow_sdk::operate::StoredPayload;

use crate::clock;

/// The longest text that is colored, in bytes. A longer one is shown plain: each color is an
/// element.
const LONGEST_COLORED: usize = 24 * 1024;
/// The longest text that stands in a page, in bytes.
const LONGEST_SHOWN: usize = 64 * 1024;

/// Shows a payload. `download` leads to the whole of it.
pub(crate) fn show(payload: &StoredPayload, download: Option<&str>, may_see: bool) -> Markup {
    let size = clock::bytes(payload.bytes);
    let (text, why) = (payload.json.as_ref().map(|json| json.as_str()), payload.unreadable.as_deref());
    html! {
        @match (text, why) {
            _ if !may_see => p.dim { (size) ", hidden from you" },
            (Some(text), _) if text.len() <= LONGEST_SHOWN => div.copied {
                pre dir="auto" tabindex="0" data-copied { (colored(text)) }
                button.btn.needs-script type="button" data-copy { "Copy" }
            },
            (_, Some(why)) => p.dim { (size) ": " (why) },
            _ => p.dim { (size) ", too much for a page" },
        }
        @if let Some(download) = download.filter(|_| may_see && why.is_none() && payload.bytes > 200) {
            p.below { a.quiet href=(download) download { "Download, " (size) } }
        }
    }
}

/// Shows a text as JSON in colors.
pub(crate) fn colored(text: &str) -> Markup {
    if text.len() > LONGEST_COLORED {
        return html! { (text) };
    }
    let tokens = pretty(text);
    html! {
        @for (kind, token) in &tokens {
            @match kind {
                Kind::Plain => (token),
                Kind::Name => span.k { (token) },
                Kind::Text => span.s { (token) },
                Kind::Number => span.n { (token) },
            }
        }
    }
}

/// Returns the beginning of a text, on one line.
pub(crate) fn beginning(text: &str) -> String {
    text.chars().take(160).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Name,
    Text,
    Number,
}

/// Returns the tokens of a JSON text with line breaks and indents between them. Strings and numbers
/// stay as they are.
fn pretty(text: &str) -> Vec<(Kind, String)> {
    let mut tokens: Vec<(Kind, String)> = Vec::new();
    let mut depth = 0usize;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, after) = rest.split_at(length(rest, first));
        rest = after;
        let next = after.trim_start().chars().next();
        let line = |depth: usize| format!("\n{}", "  ".repeat(depth.min(40)));
        match first {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' if matches!(next, Some('}' | ']')) => {
                push(&mut tokens, token);
                depth += 1;
            }
            '{' | '[' => {
                depth += 1;
                push(&mut tokens, token);
                push(&mut tokens, &line(depth));
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                let is_empty = tokens.last().is_some_and(|(_, last)| last.ends_with(['{', '[']));
                if !is_empty {
                    push(&mut tokens, &line(depth));
                }
                push(&mut tokens, token);
            }
            ',' => {
                push(&mut tokens, token);
                push(&mut tokens, &line(depth));
            }
            ':' => push(&mut tokens, ": "),
            '"' => tokens.push((if next == Some(':') { Kind::Name } else { Kind::Text }, token.to_owned())),
            _ => tokens.push((Kind::Number, token.to_owned())),
        }
    }
    tokens
}

/// Adds plain text, to the last token if that is plain too.
fn push(tokens: &mut Vec<(Kind, String)>, text: &str) {
    match tokens.last_mut() {
        Some((Kind::Plain, last)) => last.push_str(text),
        _ => tokens.push((Kind::Plain, text.to_owned())),
    }
}

/// Returns the length of the token at the beginning of a text, in bytes.
fn length(text: &str, first: char) -> usize {
    let is_word = |c: char| !c.is_whitespace() && !matches!(c, '{' | '}' | '[' | ']' | ',' | ':' | '"');
    match first {
        '"' => {
            let mut is_escaped = false;
            for (at, c) in text.char_indices().skip(1) {
                match c {
                    '"' if !is_escaped => return at + 1,
                    '\\' => is_escaped = !is_escaped,
                    _ => is_escaped = false,
                }
            }
            text.len()
        }
        c if is_word(c) => text.find(|c: char| !is_word(c)).unwrap_or(text.len()),
        c => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> String {
        pretty(text).into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn every_digit_and_letter_stays() {
        let text = r#"{"a":[1.10,12345678901234567890123,-0e9],"b":{},"c":"x \" , {","d":[],"e":null}"#;
        let expected = "{\n  \"a\": [\n    1.10,\n    12345678901234567890123,\n    -0e9\n  ],\n  \"b\": {},\n  \
                        \"c\": \"x \\\" , {\",\n  \"d\": [],\n  \"e\": null\n}";
        assert_eq!(joined(text), expected);
        assert_eq!(joined(&joined(text)), expected, "a text in lines stays");
        for text in ["", "7", "\"é\\\\\"", "\"open", "{{{", "]", "null"] {
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(letters(&joined(text)), letters(text), "{text}");
        }
    }

    #[test]
    fn markup_in_a_payload_is_text() {
        let shown = colored(r#"{"<b>":"<script>alert(1)</script>"}"#).into_string();
        assert!(!shown.contains("<script") && !shown.contains("<b>"), "{shown}");
        assert!(shown.contains("&lt;script&gt;"), "{shown}");
    }
}
