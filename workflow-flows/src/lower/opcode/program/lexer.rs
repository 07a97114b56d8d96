//! The tokens of Expr.

use super::Fault;

/// The signs of Expr, the longer ones first.
const SIGNS: [&str; 33] = [
    "?.", "??", "||", "&&", "==", "!=", "<=", ">=", "**", "..", "<", ">", "+", "-", "*", "/", "%", "^", "!", "?", ":",
    "|", "(", ")", "[", "]", "{", "}", ",", ".", "#", "=", ";",
];

/// One token, and the byte at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A number, as CEL writes it.
    Number(String),
    /// The value of a text.
    Text(String),
    /// A name or a word.
    Name(String),
    Sign(&'static str),
    End,
}

/// Splits a source into its tokens. The last one is [`Kind::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, Fault> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = source[at..].chars().next() {
        let rest = &source[at..];
        if next.is_whitespace() {
            at += next.len_utf8();
            continue;
        }
        let (kind, length) = if is_name_start(next) {
            let length = rest.find(|c: char| !is_name_start(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
            (Kind::Name(rest[..length].to_owned()), length)
        } else if next.is_ascii_digit() || starts_fraction(rest, found.last()) {
            number(rest)
        } else if matches!(next, '\'' | '"' | '`') {
            let (text, length) = text(rest, next).ok_or_else(|| Fault::syntax(at, "this text has no end"))?;
            (Kind::Text(text), length)
        } else if let Some(sign) = SIGNS.iter().copied().find(|sign| rest.starts_with(*sign)) {
            (Kind::Sign(sign), sign.len())
        } else {
            return Err(Fault::syntax(at, format!("Expr has no sign {next:?}")));
        };
        found.push(Token { kind, at });
        at += length;
    }
    found.push(Token { kind: Kind::End, at: source.len() });
    Ok(found)
}

fn is_name_start(next: char) -> bool {
    next.is_ascii_alphabetic() || matches!(next, '_' | '$')
}

/// Whether `.5` begins here: a number, unless the token before takes a member.
fn starts_fraction(rest: &str, before: Option<&Token>) -> bool {
    let is_fraction = rest.starts_with('.') && rest[1..].starts_with(|c: char| c.is_ascii_digit());
    let takes_member =
        before.is_some_and(|it| matches!(it.kind, Kind::Name(_) | Kind::Text(_) | Kind::Sign(")" | "]" | "#")));
    is_fraction && !takes_member
}

fn number(rest: &str) -> (Kind, usize) {
    let is_hexadecimal = rest.starts_with("0x");
    let mut length = 0;
    let mut before = ' ';
    for next in rest.chars() {
        let is_part = next.is_ascii_digit()
            || next == '_'
            || (is_hexadecimal && (next.is_ascii_hexdigit() || next == 'x'))
            || (!is_hexadecimal && matches!(next, 'e' | 'E'))
            || (matches!(next, '+' | '-') && !is_hexadecimal && matches!(before, 'e' | 'E'))
            || (next == '.' && !rest[..length].contains('.') && !rest[length..].starts_with(".."));
        if !is_part {
            break;
        }
        before = next;
        length += next.len_utf8();
    }
    let digits: String = rest[..length].chars().filter(|c| *c != '_').collect();
    (Kind::Number(if digits.starts_with('.') { format!("0{digits}") } else { digits }), length)
}

/// Returns the value of the text that begins with this quote, and its length in the source.
fn text(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, next)) = characters.next() {
        match next {
            _ if next == quote => return Some((value, at + next.len_utf8())),
            '\\' if quote != '`' => match characters.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                'u' => {
                    let digits: String = characters.by_ref().take(4).map(|(_, digit)| digit).collect();
                    value.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => value.push(other),
            },
            _ => value.push(next),
        }
    }
    None
}
