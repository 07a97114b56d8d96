use super::super::ExpressionError;
use super::super::hint::foreign_operator;
use super::super::scan::column;

/// A token and the byte at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    /// An integer without its sign.
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Name(String),
    /// A name in back quotes, which may stand after a dot only.
    Quoted(String),
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 29] = [
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(",
    ")", "[", "]", "{", "}", "=", "&", "|",
];

/// Splits a source into tokens. The last one is [`TokenKind::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut lexer = Lexer { source, at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        let kind = lexer.token()?;
        let is_end = kind == TokenKind::End;
        found.push(Token { kind, start });
        if is_end {
            return Ok(found);
        }
    }
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or("")
    }

    fn error(&self, at: usize, message: impl Into<String>) -> ExpressionError {
        ExpressionError::Syntax { message: message.into(), column: column(self.source, at) }
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
            self.at += blanks;
            if !self.rest().starts_with("//") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn token(&mut self) -> Result<TokenKind, ExpressionError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(TokenKind::End) };
        let second = rest.chars().nth(1);
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|next| next.is_ascii_digit())) {
            return self.number();
        }
        if let Some((raw, is_bytes, prefix)) = literal_prefix(rest) {
            return self.text(raw, is_bytes, prefix);
        }
        if first == '`' {
            let inner = rest.get(1..).unwrap_or("");
            let end = inner.find('`').ok_or_else(|| self.error(self.at, "the name in back quotes has no end"))?;
            let name = inner.get(..end).unwrap_or("");
            let plain = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
            if name.is_empty() || !name.chars().all(plain) {
                return Err(self.error(self.at, "a name in back quotes has letters, digits and `_.-/ ` only"));
            }
            self.at += end + 2;
            return Ok(TokenKind::Quoted(name.to_owned()));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            self.at += end;
            return Ok(TokenKind::Name(rest.get(..end).unwrap_or("").to_owned()));
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => match foreign_operator(symbol) {
                Some(message) => Err(self.error(self.at, message)),
                None => {
                    self.at += symbol.len();
                    Ok(TokenKind::Symbol(symbol))
                }
            },
            None => Err(self.error(self.at, format!("{first:?} cannot stand here"))),
        }
    }

    fn number(&mut self) -> Result<TokenKind, ExpressionError> {
        let start = self.at;
        let rest = self.rest();
        if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            let value = u64::from_str_radix(digits.get(..end).unwrap_or(""), 16)
                .map_err(|_| self.error(start, "the number is too large or has no digits"))?;
            self.at += end + 2;
            return self.suffix(start, value);
        }
        let whole = digits(rest);
        let mut end = whole;
        let mut is_double = false;
        let tail = rest.get(end..).unwrap_or("");
        if let Some(fraction) = tail.strip_prefix('.').map(digits).filter(|count| *count > 0) {
            end += 1 + fraction;
            is_double = true;
        }
        let tail = rest.get(end..).unwrap_or("");
        if let Some(exponent) = tail.strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let count = digits(exponent.get(sign..).unwrap_or(""));
            if count > 0 {
                end += 1 + sign + count;
                is_double = true;
            }
        }
        let text = rest.get(..end).unwrap_or("");
        self.at += end;
        if !is_double {
            let value = text.parse().map_err(|_| self.error(start, "the number is too large"))?;
            return self.suffix(start, value);
        }
        self.word_end(start)?;
        text.parse().map(TokenKind::Double).map_err(|_| self.error(start, "this is no number"))
    }

    fn suffix(&mut self, start: usize, value: u64) -> Result<TokenKind, ExpressionError> {
        let is_uint = self.rest().starts_with(['u', 'U']);
        self.at += usize::from(is_uint);
        self.word_end(start)?;
        Ok(if is_uint { TokenKind::Uint(value) } else { TokenKind::Int(value) })
    }

    /// Refuses a letter directly after a number.
    fn word_end(&self, start: usize) -> Result<(), ExpressionError> {
        match self.rest().chars().next() {
            Some(next) if next.is_ascii_alphanumeric() || next == '_' => Err(self.error(start, "this is no number")),
            _ => Ok(()),
        }
    }

    fn text(&mut self, raw: bool, is_bytes: bool, prefix: usize) -> Result<TokenKind, ExpressionError> {
        let start = self.at;
        self.at += prefix;
        let rest = self.rest();
        let triple = ["'''", "\"\"\""].into_iter().find(|quotes| rest.starts_with(quotes));
        let close = triple.or_else(|| rest.get(..1)).unwrap_or("'");
        self.at += close.len();
        let mut text = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(close) {
                self.at += close.len();
                break;
            }
            let next = rest.chars().next().filter(|next| triple.is_some() || !matches!(next, '\n' | '\r'));
            let next = next.ok_or_else(|| self.error(start, "the text that begins here has no end"))?;
            if next == '\\' && !raw {
                self.escape(&mut text, is_bytes)?;
            } else {
                self.at += next.len_utf8();
                // A line of a text ends with `\n` alone.
                if next == '\r' {
                    self.at += usize::from(self.rest().starts_with('\n'));
                }
                push(&mut text, if next == '\r' { '\n' } else { next });
            }
        }
        if is_bytes {
            return Ok(TokenKind::Bytes(text));
        }
        String::from_utf8(text).map(TokenKind::Text).map_err(|_| self.error(start, "the text is not UTF-8"))
    }

    fn escape(&mut self, text: &mut Vec<u8>, is_bytes: bool) -> Result<(), ExpressionError> {
        let start = self.at;
        let unknown = |lexer: &Self| lexer.error(start, "this escape is unknown; a backslash itself is `\\\\`");
        let after = self.rest().get(1..).unwrap_or("");
        let kind = after.chars().next().ok_or_else(|| unknown(self))?;
        let plain = match kind {
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            '\\' | '?' | '"' | '\'' | '`' => Some(kind),
            _ => None,
        };
        if let Some(plain) = plain {
            self.at += 2;
            push(text, plain);
            return Ok(());
        }
        let (skipped, length, radix) = match kind {
            'x' | 'X' => (2, 2, 16),
            'u' if !is_bytes => (2, 4, 16),
            'U' if !is_bytes => (2, 8, 16),
            '0'..='3' => (1, 3, 8),
            _ => return Err(unknown(self)),
        };
        let digits = self.rest().get(skipped..skipped + length).ok_or_else(|| unknown(self))?;
        if !digits.chars().all(|digit| digit.is_digit(radix)) {
            return Err(unknown(self));
        }
        let value = u32::from_str_radix(digits, radix).map_err(|_| unknown(self))?;
        self.at += skipped + length;
        if is_bytes {
            text.push(u8::try_from(value).map_err(|_| unknown(self))?);
            return Ok(());
        }
        push(text, char::from_u32(value).ok_or_else(|| self.error(start, "this is no character of Unicode"))?);
        Ok(())
    }
}

fn push(text: &mut Vec<u8>, next: char) {
    text.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
}

fn digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

/// Returns whether a literal is raw, whether it is of bytes, and how many letters stand before it.
fn literal_prefix(rest: &str) -> Option<(bool, bool, usize)> {
    let letters = rest.find(['\'', '"']).filter(|letters| *letters <= 2)?;
    let prefix = rest.get(..letters)?.to_ascii_lowercase();
    match prefix.as_str() {
        "" => Some((false, false, 0)),
        "r" => Some((true, false, 1)),
        "b" => Some((false, true, 1)),
        "br" | "rb" => Some((true, true, 2)),
        _ => None,
    }
}
