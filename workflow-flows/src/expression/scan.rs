use super::ExpressionError;

/// Walks over the characters of an expression that stand outside of its string literals.
///
/// String literals are those of CEL: one or three quotes of either kind, raw with `r` before them.
#[derive(Debug)]
pub(super) struct Outside<'a> {
    text: &'a str,
    at: usize,
    /// Whether the last character was an `r` that begins a word.
    raw: bool,
    in_word: bool,
}

impl<'a> Outside<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, raw: false, in_word: false }
    }

    /// Returns the text after the last character.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Skips a string literal whose first quote is next. `None` if it has no end.
    fn skip_literal(&mut self, quote: char) -> Option<()> {
        let rest = self.rest();
        let triple = match quote {
            '\'' => "'''",
            _ => "\"\"\"",
        };
        let close = if rest.starts_with(triple) { triple } else { triple.get(..1)? };
        let mut at = close.len();
        loop {
            let left = rest.get(at..)?;
            if left.starts_with(close) {
                self.at += at + close.len();
                return Some(());
            }
            let next = left.chars().next()?;
            at += next.len_utf8();
            if next == '\\' && !self.raw {
                at += left.chars().nth(1)?.len_utf8();
            }
        }
    }
}

impl Iterator for Outside<'_> {
    /// The byte at which the character stands, or an error for a literal without an end.
    type Item = Result<(usize, char), ExpressionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let next = self.rest().chars().next()?;
            let start = self.at;
            if matches!(next, '\'' | '"') {
                if self.skip_literal(next).is_none() {
                    self.at = self.text.len();
                    let message = "the text that begins here has no end".to_owned();
                    return Some(Err(ExpressionError::Syntax { message, column: column(self.text, start) }));
                }
                (self.raw, self.in_word) = (false, false);
                continue;
            }
            self.at += next.len_utf8();
            self.raw = !self.in_word && matches!(next, 'r' | 'R');
            self.in_word = next.is_ascii_alphanumeric() || next == '_';
            return Some(Ok((start, next)));
        }
    }
}

/// Returns the column of a byte, from 1.
pub(super) fn column(text: &str, byte: usize) -> usize {
    text.get(..byte).unwrap_or(text).chars().count() + 1
}
