//! The paths that an expression reads: roots and segments, with their places.

use std::collections::BTreeSet;
use std::ops::Range;

use super::token::{SyntaxFault, Token, TokenKind, tokens};

/// A path in an expression, such as `steps.fetch.body`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    pub(crate) root: String,
    /// The names and indexes after the root, up to the first that is computed.
    pub(crate) segments: Vec<Segment>,
    /// The bytes of the path in the expression.
    pub(crate) range: Range<usize>,
    pub(crate) root_range: Range<usize>,
    /// Whether something missing is expected: by `??`, `?.` or `has`.
    pub(crate) is_guarded: bool,
    /// Whether the reference is the whole expression.
    pub(crate) is_whole: bool,
    /// Whether the last name is called as a function.
    pub(crate) is_call: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Segment {
    /// The name. `None`: an index.
    pub(crate) name: Option<String>,
    /// The bytes of the name, without quotes and brackets.
    pub(crate) range: Range<usize>,
}

impl Reference {
    /// Returns the name of the segment at this position.
    pub(crate) fn name(&self, index: usize) -> Option<&str> {
        self.segments.get(index)?.name.as_deref()
    }
}

/// The paths that an expression reads, and its tokens if it is CEL.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scan {
    pub(crate) references: Vec<Reference>,
    pub(crate) tokens: Vec<Token>,
}

/// Finds the references of an expression: a path, or CEL, or several of them between `??`.
pub(crate) fn scan(text: &str) -> Result<Scan, SyntaxFault> {
    let parts = alternatives(text);
    let mut scan = Scan::default();
    for (index, part) in parts.iter().enumerate() {
        let piece = &text[part.clone()];
        let is_guarded = index + 1 < parts.len();
        let moved = |range: &Range<usize>| range.start + part.start..range.end + part.start;
        let mut found = if let Some(path) = path(piece) {
            vec![path]
        } else {
            let list = tokens(piece).map_err(|mut fault| {
                fault.at += part.start;
                fault.end += part.start;
                if piece.trim().is_empty() && parts.len() > 1 {
                    fault.message = "expected a value beside \"??\"".to_owned();
                }
                fault
            })?;
            let references = of_tokens(piece, &list);
            scan.tokens = list;
            references
        };
        for reference in &mut found {
            reference.range = moved(&reference.range);
            reference.root_range = moved(&reference.root_range);
            reference.is_guarded |= is_guarded;
            reference.is_whole &= parts.len() == 1;
            for segment in &mut reference.segments {
                segment.range = moved(&segment.range);
            }
        }
        scan.references.extend(found);
    }
    Ok(scan)
}

/// Splits an expression at each `??` that stands in no quotes and no brackets.
fn alternatives(text: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut depth, mut quote, mut skips) = (0, 0_usize, None, 0);
    for (at, c) in text.char_indices() {
        if skips > 0 {
            skips -= 1;
            continue;
        }
        match (quote, c) {
            (Some(_), '\\') => skips = 1,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, '?') if depth == 0 && text[at..].starts_with("??") => {
                parts.push(start..at);
                start = at + 2;
                skips = 1;
            }
            _ => {}
        }
    }
    parts.push(start..text.len());
    parts
}

/// Reads an expression that is one path. Names may have hyphens, as in
/// [`Path`](crate::expression::Path).
fn path(text: &str) -> Option<Reference> {
    let start = text.len() - text.trim_start().len();
    let end = text.trim_end().len();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let word = |from: usize| from + text[from..end].find(|c| !is_name(c)).unwrap_or(end - from);
    let mut at = word(start);
    if at == start || text[start..].starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    let root_range = start..at;
    if matches!(&text[root_range.clone()], "true" | "false" | "null") {
        return None;
    }
    let mut segments = Vec::new();
    while at < end {
        let rest = &text[at..end];
        if rest.starts_with('.') {
            let next = word(at + 1);
            if next == at + 1 {
                return None;
            }
            segments.push(Segment { name: Some(text[at + 1..next].to_owned()), range: at + 1..next });
            at = next;
        } else if let Some(quoted) = rest.strip_prefix("['") {
            let length = quoted.find("']")?;
            let range = at + 2..at + 2 + length;
            segments.push(Segment { name: Some(text[range.clone()].to_owned()), range });
            at += length + 4;
        } else {
            let inside = rest.strip_prefix('[')?;
            let length = inside.find(']')?;
            inside[..length].parse::<usize>().ok()?;
            segments.push(Segment { name: None, range: at + 1..at + 1 + length });
            at += length + 2;
        }
    }
    let root = text[root_range.clone()].to_owned();
    let is_guarded = false;
    Some(Reference { root, segments, range: start..end, root_range, is_guarded, is_whole: true, is_call: false })
}

/// The macros of CEL that bind a variable.
const BINDING: [&str; 7] = ["all", "exists", "exists_one", "map", "filter", "existsOne", "transformList"];

fn of_tokens(text: &str, tokens: &[Token]) -> Vec<Reference> {
    let word = |index: usize| tokens.get(index).map_or("", |token| &text[token.start..token.end]);
    let kind = |index: usize| tokens.get(index).map(|token| token.kind);
    let mut bound = BTreeSet::new();
    for index in 0..tokens.len() {
        let is_macro = kind(index) == Some(TokenKind::Dot) && BINDING.contains(&word(index + 1));
        if is_macro && word(index + 2) == "(" && kind(index + 3) == Some(TokenKind::Name) && word(index + 4) == "," {
            bound.insert(word(index + 3).to_owned());
        }
    }
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let first = index;
        index += 1;
        let after_dot = first > 0 && kind(first - 1) == Some(TokenKind::Dot) && first > 1;
        let is_root = kind(first) == Some(TokenKind::Name) && !after_dot;
        // A name before ( is a function.
        if !is_root || matches!(word(first), "true" | "false" | "null" | "in") || word(index) == "(" {
            continue;
        }
        let token = &tokens[first];
        let mut segments = Vec::new();
        let mut is_guarded = first > 1 && word(first - 1) == "(" && word(first - 2) == "has";
        let mut is_call = false;
        let mut end = token.end;
        loop {
            let optional = usize::from(word(index + 1) == "?");
            if kind(index) == Some(TokenKind::Dot) && kind(index + 1 + optional) == Some(TokenKind::Name) {
                let name = &tokens[index + 1 + optional];
                is_guarded |= optional == 1;
                if word(index + 2 + optional) == "(" {
                    is_call = true;
                    is_guarded |= matches!(word(index + 1), "orValue" | "or" | "hasValue");
                    break;
                }
                segments
                    .push(Segment { name: Some(text[name.start..name.end].to_owned()), range: name.start..name.end });
                end = name.end;
                index += 2 + optional;
            } else if word(index) == "[" && word(index + 2 + optional) == "]" {
                let inside = &tokens[index + 1 + optional];
                is_guarded |= optional == 1;
                match inside.kind {
                    TokenKind::Text => {
                        let range = inside.start + 1..inside.end - 1;
                        let name = Some(text[range.clone()].to_owned());
                        segments.push(Segment { name, range });
                    }
                    TokenKind::Number => segments.push(Segment { name: None, range: inside.start..inside.end }),
                    // A computed key: the rest of the path is unknown.
                    _ => break,
                }
                end = tokens[index + 2 + optional].end;
                index += 3 + optional;
            } else {
                break;
            }
        }
        let root = word(first).to_owned();
        if bound.contains(&root) {
            continue;
        }
        let root_range = token.start..token.end;
        let is_whole = first == 0 && index >= tokens.len();
        found.push(Reference { root, segments, range: token.start..end, root_range, is_guarded, is_whole, is_call });
    }
    found
}

/// Finds the paths of a jq program that begin at its input, before its first pipe.
pub(crate) fn scan_jq(text: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    let head = text.split('|').next().unwrap_or_default();
    for root in ["input", "steps", "vars"] {
        for (at, _) in head.match_indices(&format!(".{root}.")) {
            let before = head[..at].trim_end().chars().last();
            let is_in_text = head[..at].matches('"').count() % 2 == 1;
            if is_in_text || before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ']' | ')' | '.' | '$')) {
                continue;
            }
            let start = at + root.len() + 2;
            let rest = &head[start..];
            let end = start + rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if end == start {
                continue;
            }
            let is_guarded = text.contains('?') || text.contains("//");
            let segments = vec![Segment { name: Some(head[start..end].to_owned()), range: start..end }];
            found.push(Reference {
                root: root.to_owned(),
                segments,
                range: at + 1..end,
                root_range: at + 1..at + 1 + root.len(),
                is_guarded,
                is_whole: false,
                is_call: false,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let scan = scan(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        let show = |it: &Reference| {
            let names = it.segments.iter().map(|segment| segment.name.clone().unwrap_or_else(|| "#".to_owned()));
            let names = std::iter::once(it.root.clone()).chain(names).collect::<Vec<_>>().join(".");
            if it.is_guarded { format!("{names}?") } else { names }
        };
        scan.references.iter().map(show).collect()
    }

    #[test]
    fn a_path_may_have_hyphens_and_cel_subtracts() {
        assert_eq!(shown("steps.hash-payload.hash"), ["steps.hash-payload.hash"]);
        assert_eq!(shown("steps['a b'][0].c"), ["steps.a b.#.c"]);
        assert_eq!(shown("steps.hash-payload.hash == 1"), ["steps.hash", "payload.hash"]);
    }

    #[test]
    fn names_of_functions_fields_and_macros_are_no_references() {
        assert_eq!(shown("size(input.xs) > 0 && has(steps.a.b)"), ["input.xs", "steps.a.b?"]);
        assert_eq!(shown("input.xs.all(x, x.n > input.min)"), ["input.xs", "input.min"]);
        assert_eq!(shown("steps.a.?b.orValue('x')"), ["steps.a.b?"]);
        assert_eq!(shown("steps[input.name].x"), ["steps", "input.name"]);
        assert_eq!(shown("'input.x' == \"steps.y\""), Vec::<String>::new());
        assert_eq!(shown("input.s.startsWith('x')"), ["input.s"]);
    }

    #[test]
    fn a_default_guards_what_stands_before_it() {
        assert_eq!(shown("input.x-y ?? steps.a.b ?? 'none'"), ["input.x-y?", "steps.a.b?"]);
        assert_eq!(scan("input.x ??").unwrap_err().message, "expected a value beside \"??\"");
    }

    #[test]
    fn jq_reads_its_input_up_to_the_first_pipe() {
        let names = |text| scan_jq(text).iter().map(|it| text[it.range.clone()].to_owned()).collect::<Vec<_>>();
        assert_eq!(names("[.steps.fetch.body[] | .input.x]"), ["steps.fetch"]);
        assert_eq!(names(".input.a + .vars.b"), ["input.a", "vars.b"]);
        assert_eq!(names(".x.steps.a"), Vec::<String>::new());
    }
}
