//! Templates: texts with expressions in `{{ }}`.

use std::ops::Range;

/// Returns the bytes of each expression of a text, without its braces. `{{{{` is no expression.
///
/// The error is the byte of a `{{` that is not closed.
pub(crate) fn expressions(text: &str) -> Result<Vec<Range<usize>>, usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("{{") {
        let open = at + open;
        if text[open..].starts_with("{{{{") {
            at = open + 4;
            continue;
        }
        let start = open + 2;
        let end = end_of(&text[start..]).ok_or(open)? + start;
        found.push(start..end);
        at = end + 2;
    }
    Ok(found)
}

/// Returns `true` if the text may hold an expression or an escape.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{")
}

/// The byte of the `}}` that closes an expression: outside of quotes and of braces of its own.
fn end_of(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut skips) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        if std::mem::take(&mut skips) {
            continue;
        }
        match (quote, c) {
            (Some(_), '\\') => skips = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if text[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    // A quote that is not closed must not hide the end.
    quote.and_then(|_| text.find("}}"))
}

/// Replaces each expression by what `replace` returns for it, if it returns something.
pub(crate) fn rewrite(text: &str, replace: impl Fn(&str) -> Option<String>) -> String {
    let Ok(found) = expressions(text) else { return text.to_owned() };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for range in found {
        out.push_str(&text[at..range.start]);
        let inner = &text[range.clone()];
        out.push_str(&replace(inner).unwrap_or_else(|| inner.to_owned()));
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_end_outside_of_quotes_and_braces() {
        let inner = |text: &'static str| {
            expressions(text).map(|found| found.into_iter().map(|range| &text[range]).collect::<Vec<_>>())
        };
        assert_eq!(inner("a {{b}} c {{ d }}"), Ok(vec!["b", " d "]));
        assert_eq!(inner("{{ {'a': {'b': 1}} }}"), Ok(vec![" {'a': {'b': 1}} "]));
        assert_eq!(inner("{{ '}}' }}"), Ok(vec![" '}}' "]));
        assert_eq!(inner("{{{{ no }} {{yes}}"), Ok(vec!["yes"]));
        assert_eq!(inner("{{ it's }}"), Ok(vec![" it's "]));
        assert_eq!(inner("x {{a"), Err(2));
    }
}
