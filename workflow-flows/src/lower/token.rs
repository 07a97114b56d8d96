//! The words of an expression in CEL, with the faults that a reader can name without a parser.

/// One token and its byte range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Name,
    Number,
    Text,
    /// Stands between two values.
    Binary,
    /// Stands before a value: `!`. A minus is binary or unary, as its place says.
    Unary,
    Dot,
    Comma,
    Open,
    Close,
}

/// A fault of the syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxFault {
    /// The byte in the expression.
    pub(crate) at: usize,
    /// The byte after the faulty text. Equal to `at` if nothing is to be replaced.
    pub(crate) end: usize,
    pub(crate) message: String,
    /// The text that repairs it in place of `at..end`.
    pub(crate) repair: Option<&'static str>,
}

fn fault(at: usize, end: usize, message: impl Into<String>) -> SyntaxFault {
    SyntaxFault { at, end, message: message.into(), repair: None }
}

/// Splits an expression into tokens and checks their order.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, SyntaxFault> {
    let tokens = split(text)?;
    check(text, &tokens)?;
    Ok(tokens)
}

fn split(text: &str) -> Result<Vec<Token>, SyntaxFault> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let after_dot = tokens.last().is_some_and(|token| token.kind == TokenKind::Dot);
        let (kind, length) = if let Some(length) = quoted(rest) {
            let length = length.ok_or_else(|| fault(at, at, format!("the quote {c} is not closed")))?;
            (TokenKind::Text, length)
        } else if c.is_ascii_alphabetic() || c == '_' {
            (TokenKind::Name, run(rest, |c| c.is_ascii_alphanumeric() || c == '_'))
        } else if c.is_ascii_digit() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || (c == '.' && !after_dot);
            let length = run(rest, is_part);
            // The sign of an exponent.
            let has_sign = rest[..length].ends_with(['e', 'E']) && !rest.starts_with("0x");
            let sign = usize::from(has_sign && rest[length..].starts_with(['-', '+']));
            (TokenKind::Number, length + sign + if sign == 1 { run(&rest[length + 1..], is_part) } else { 0 })
        } else {
            operator(rest).map_err(|mut fault| {
                fault.at += at;
                fault.end += at;
                fault
            })?
        };
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
    Ok(tokens)
}

fn run(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// The length of a quoted text at the beginning, with its prefix. `None`: no quoted text begins
/// here. `Some(None)`: it does not end.
#[allow(clippy::option_option)]
fn quoted(text: &str) -> Option<Option<usize>> {
    let prefix = run(text, |c| matches!(c, 'r' | 'R' | 'b' | 'B'));
    let rest = if prefix <= 2 { &text[prefix..] } else { text };
    let start = text.len() - rest.len();
    let is_raw = text[..start].contains(['r', 'R']);
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote))?;
    let mut at = quote.len();
    while at < rest.len() {
        if rest[at..].starts_with(quote) {
            return Some(Some(start + at + quote.len()));
        }
        let c = rest[at..].chars().next()?;
        at += c.len_utf8();
        if c == '\\' && !is_raw {
            at += rest[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Some(None)
}

fn operator(rest: &str) -> Result<(TokenKind, usize), SyntaxFault> {
    for operator in ["===", "!==", "&&", "||", "==", "!=", "<=", ">=", "??"] {
        if rest.starts_with(operator) {
            if operator.len() == 3 {
                let repair = if operator == "===" { "==" } else { "!=" };
                let message = format!("\"{operator}\" is not an operator; write \"{repair}\"");
                return Err(SyntaxFault { repair: Some(repair), ..fault(0, 3, message) });
            }
            return Ok((TokenKind::Binary, 2));
        }
    }
    let one = |kind| Ok((kind, 1));
    let wrong = |message: &str, repair: Option<&'static str>| Err(SyntaxFault { repair, ..fault(0, 1, message) });
    match rest.chars().next() {
        Some('.') => one(TokenKind::Dot),
        Some(',') => one(TokenKind::Comma),
        Some('(' | '[' | '{') => one(TokenKind::Open),
        Some(')' | ']' | '}') => one(TokenKind::Close),
        Some('+' | '-' | '*' | '/' | '%' | '<' | '>' | '?' | ':') => one(TokenKind::Binary),
        Some('!') => one(TokenKind::Unary),
        Some('=') => wrong("one \"=\" compares nothing; write \"==\"", Some("==")),
        Some('&') => wrong("one \"&\" is not an operator; write \"&&\"", Some("&&")),
        Some('|') => wrong("one \"|\" is not an operator of CEL; write \"||\", or use a jq step", Some("||")),
        Some(c) => Err(fault(0, c.len_utf8(), format!("'{}' has no meaning in an expression", c.escape_debug()))),
        None => Err(fault(0, 0, "the expression ends here")),
    }
}

/// The words that other languages have as operators.
fn foreign(word: &str) -> Option<&'static str> {
    match word {
        "and" | "AND" => Some("&&"),
        "or" | "OR" => Some("||"),
        "not" | "NOT" => Some("!"),
        _ => None,
    }
}

fn check(text: &str, tokens: &[Token]) -> Result<(), SyntaxFault> {
    let mut open: Vec<&Token> = Vec::new();
    // Whether a value has to come next.
    let mut wants_value = true;
    let shown = |token: &Token| text[token.start..token.end].to_owned();
    for (index, token) in tokens.iter().enumerate() {
        let word = &text[token.start..token.end];
        let previous = index.checked_sub(1).map(|index| &tokens[index]);
        let after_dot = previous.is_some_and(|previous| previous.kind == TokenKind::Dot);
        match token.kind {
            TokenKind::Name if !after_dot && foreign(word).is_some() => {
                let repair = foreign(word);
                let message = format!("\"{word}\" is not an operator; write \"{}\"", repair.unwrap_or_default());
                return Err(SyntaxFault { repair, ..fault(token.start, token.end, message) });
            }
            TokenKind::Name if word == "in" && !after_dot => {
                if wants_value {
                    return Err(fault(token.start, token.end, "expected a value, found \"in\""));
                }
                wants_value = true;
            }
            TokenKind::Name | TokenKind::Number | TokenKind::Text => {
                if !wants_value && !after_dot {
                    return Err(fault(token.start, token.end, format!("expected an operator, found {word}")));
                }
                wants_value = false;
            }
            TokenKind::Dot => {
                // A leading dot names a root.
                let is_leading = wants_value && !after_dot;
                if after_dot || (wants_value && !is_leading) {
                    return Err(fault(token.start, token.end, "expected a name after \".\""));
                }
                wants_value = true;
            }
            TokenKind::Unary => {
                if !wants_value {
                    return Err(fault(token.start, token.end, format!("expected an operator, found {word}")));
                }
            }
            TokenKind::Binary => {
                let before_name = previous.is_some_and(|it| matches!(shown(it).as_str(), "." | "[" | "{" | ","));
                // `a.?b`, `a[?b]`, `{?'a': b}` and `[?a]` are optional.
                if word == "?" && before_name {
                    if after_dot {
                        continue;
                    }
                    wants_value = true;
                    continue;
                }
                if wants_value && word != "-" {
                    let expected = previous.map_or_else(String::new, |it| format!(" after \"{}\"", shown(it)));
                    return Err(fault(token.start, token.end, format!("expected a value{expected}, found {word}")));
                }
                wants_value = true;
            }
            TokenKind::Comma => {
                if wants_value {
                    return Err(fault(token.start, token.end, "expected a value before \",\""));
                }
                wants_value = true;
            }
            TokenKind::Open => {
                if !wants_value && word == "{" && !is_message(previous) {
                    return Err(fault(token.start, token.end, "expected an operator, found {"));
                }
                open.push(token);
                wants_value = true;
            }
            TokenKind::Close => {
                let Some(opened) = open.pop() else {
                    return Err(fault(token.start, token.end, format!("{word} closes nothing")));
                };
                if !fits(&shown(opened), word) {
                    return Err(fault(token.start, token.end, format!("{word} does not close {}", shown(opened))));
                }
                let is_empty = previous.is_some_and(|previous| previous.start == opened.start);
                let after_comma = previous.is_some_and(|previous| previous.kind == TokenKind::Comma);
                if wants_value && !is_empty && !(after_comma && word != ")") {
                    let after = previous.map(shown).unwrap_or_default();
                    return Err(fault(token.start, token.end, format!("expected a value after \"{after}\"")));
                }
                wants_value = false;
            }
        }
    }
    if let Some(opened) = open.last() {
        return Err(fault(opened.start, opened.end, format!("{} is not closed", shown(opened))));
    }
    match tokens.last() {
        None => Err(fault(0, 0, "the expression is empty")),
        Some(last) if wants_value => {
            Err(fault(last.end, last.end, format!("expected a value after \"{}\"", shown(last))))
        }
        Some(_) => Ok(()),
    }
}

fn is_message(previous: Option<&Token>) -> bool {
    previous.is_some_and(|previous| previous.kind == TokenKind::Name)
}

fn fits(open: &str, close: &str) -> bool {
    matches!((open, close), ("(", ")") | ("[", "]") | ("{", "}"))
}

/// Returns the fault of a jq program's quotes and brackets.
pub(crate) fn jq_fault(text: &str) -> Option<SyntaxFault> {
    // What is open: brackets, quotes, and `\(` inside of quotes as '\\'.
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut skip = None;
    for (at, c) in text.char_indices() {
        let in_text = open.last().is_some_and(|(open, _)| *open == '"');
        if let Some(until) = skip {
            if c == until {
                skip = None;
            }
            if until == '\n' || until == c {
                continue;
            }
            skip = None;
            if c == '(' {
                open.push(('(', at));
            }
            continue;
        }
        match c {
            '\\' if in_text => skip = Some('\0'),
            '"' if in_text => drop(open.pop()),
            '"' => open.push((c, at)),
            _ if in_text => {}
            '#' => skip = Some('\n'),
            '(' | '[' | '{' => open.push((c, at)),
            ')' | ']' | '}' => match open.pop() {
                Some((opened, _)) if fits(&opened.to_string(), &c.to_string()) => {}
                Some((opened, _)) => return Some(fault(at, at + 1, format!("{c} does not close {opened}"))),
                None => return Some(fault(at, at + 1, format!("{c} closes nothing"))),
            },
            _ => {}
        }
    }
    if let Some((opened, at)) = open.pop() {
        return Some(fault(at, at + 1, format!("{opened} is not closed")));
    }
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Some(fault(0, 0, "the program is empty"));
    }
    if let Some(last) =
        trimmed.chars().last().filter(|last| matches!(last, '|' | ',' | '=' | '+' | '*' | '%' | '<' | '>'))
    {
        let at = text.trim_end().len();
        return Some(fault(at, at, format!("expected a value after \"{last}\"")));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correct_expressions_have_no_fault() {
        for text in [
            "a",
            "a.b[0]['c d'] == 'x'",
            "!a && (b || c.d(1, 2))",
            "-x + 3 * -2.5e-3",
            "has(a.b) ? 1 : 2",
            "xs.all(x, x > 0)",
            "{'a': 1, \"b\": [1, 2,]}",
            "a.?b.orValue('none')",
            "a[?0]",
            "x in ['a', 'b']",
            "r'\\d+'.matches(x)",
            "size(a) > 0 || true",
            "a ?? 'x'",
            "[]",
            "{}",
            "b'abc' == c",
            "0x1F",
            "5u",
            "google.Type{a: 1}",
            "'''it's'''",
        ] {
            assert_eq!(tokens(text).err(), None, "{text}");
        }
    }

    #[test]
    fn each_fault_has_its_place() {
        for (text, at, message) in [
            ("", 0, "the expression is empty"),
            ("a &&", 4, "expected a value after \"&&\""),
            ("a && )", 5, ") closes nothing"),
            ("(a && )", 6, "expected a value after \"&&\""),
            ("a = 1", 2, "one \"=\" compares nothing; write \"==\""),
            ("a b", 2, "expected an operator, found b"),
            ("a == 'x", 5, "the quote ' is not closed"),
            ("(a", 0, "( is not closed"),
            ("(a]", 2, "] does not close ("),
            ("a and b", 2, "\"and\" is not an operator; write \"&&\""),
            ("a === b", 2, "\"===\" is not an operator; write \"==\""),
            ("a @ b", 2, "'@' has no meaning in an expression"),
            ("a.", 2, "expected a value after \".\""),
            ("* 2", 0, "expected a value, found *"),
            ("f(,)", 2, "expected a value before \",\""),
        ] {
            let found = tokens(text).unwrap_err();
            assert_eq!((found.at, found.message.as_str()), (at, message), "{text}");
        }
    }

    #[test]
    fn jq_programs_are_checked_for_brackets() {
        for text in ["[.a[] | select(.b) | {id}]", "\"x\\(.a | tostring)y\"", ".a # (", "\"(\\\"\""] {
            assert_eq!(jq_fault(text), None, "{text}");
        }
        assert_eq!(jq_fault("[.a").map(|it| it.at), Some(0));
        assert_eq!(jq_fault(".a)").map(|it| it.at), Some(2));
        assert_eq!(jq_fault(".a |").map(|it| it.at), Some(4));
        assert_eq!(jq_fault("\"a").map(|it| it.at), Some(0));
    }
}
