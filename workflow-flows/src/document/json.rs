use std::collections::HashMap;

use super::{Bounds, Data, Entry, Fault, Lines, Node, Parsed, Span};

struct Reader<'s> {
    source: &'s str,
    lines: Lines<'s>,
    at: usize,
    depth: usize,
    bounds: Bounds,
    faults: Vec<Fault>,
}

pub(super) fn parse(source: &str, bounds: Bounds) -> Parsed {
    let mut reader = Reader { source, lines: Lines::new(source), at: 0, depth: 0, bounds, faults: Vec::new() };
    let root = reader.document();
    match root {
        Ok(root) => Parsed { root: Some(root), faults: reader.faults },
        Err(fault) => {
            reader.faults.push(fault);
            Parsed { root: None, faults: reader.faults }
        }
    }
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Node, Fault> {
        let root = self.value()?;
        match self.peek() {
            None => Ok(root),
            Some(_) => Err(self.unexpected("the end of the document")),
        }
    }

    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    /// Skips white space and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r', '\u{feff}']).len();
        self.rest().chars().next()
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = self.rest().chars().next();
        let shown = found.map_or_else(|| "the end".to_owned(), |c| format!("'{}'", c.escape_debug()));
        let end = self.at + found.map_or(0, char::len_utf8);
        Fault::new(format!("expected {expected}, found {shown}"), Span { start: self.at, end })
    }

    fn value(&mut self) -> Result<Node, Fault> {
        let first = self.peek();
        let start = self.at;
        let data = match first {
            Some('{') => self.nested(Self::map)?,
            Some('[') => self.nested(Self::list)?,
            Some('"') => Data::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { data, span: Span { start, end: self.at } })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Data, Fault>) -> Result<Data, Fault> {
        if self.depth >= self.bounds.depth {
            let message = format!("lists and maps are deeper than {}", self.bounds.depth);
            return Err(Fault::new(message, Span { start: self.at, end: self.at }));
        }
        self.depth += 1;
        let data = read(self);
        self.depth -= 1;
        data
    }

    fn word(&mut self) -> Result<Data, Fault> {
        for (word, data) in [("null", Data::Null), ("true", Data::Bool(true)), ("false", Data::Bool(false))] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(data);
            }
        }
        Err(self.unexpected("a value"))
    }

    fn list(&mut self) -> Result<Data, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        if self.peek() == Some(']') {
            self.at += 1;
            return Ok(Data::List(items));
        }
        loop {
            items.push(self.value()?);
            match self.peek() {
                Some(',') => self.at += 1,
                Some(']') => {
                    self.at += 1;
                    return Ok(Data::List(items));
                }
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn map(&mut self) -> Result<Data, Fault> {
        self.at += 1;
        let mut entries = Vec::new();
        let mut keys: HashMap<String, usize> = HashMap::new();
        if self.peek() == Some('}') {
            self.at += 1;
            return Ok(Data::Map(entries));
        }
        loop {
            if self.peek() != Some('"') {
                return Err(self.unexpected("a key in quotes"));
            }
            let start = self.at;
            let key = self.text()?;
            let key_span = Span { start, end: self.at };
            let first = keys.get(&key).copied();
            keys.entry(key.clone()).or_insert(start);
            if let Some(first) = first {
                self.faults.push(Fault::twice(&key, self.lines.line(first), key_span));
            }
            if self.peek() != Some(':') {
                return Err(self.unexpected("\":\""));
            }
            self.at += 1;
            let value = self.value()?;
            // The first one of two equal keys counts.
            if first.is_none() {
                entries.push(Entry { key, key_span, value });
            }
            match self.peek() {
                Some(',') => self.at += 1,
                Some('}') => {
                    self.at += 1;
                    return Ok(Data::Map(entries));
                }
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    /// Reads a text with serde's rules for escapes.
    fn text(&mut self) -> Result<String, Fault> {
        let start = self.at;
        let mut is_escaped = false;
        let inside = self.source[start + 1..].char_indices().find(|(_, c)| {
            let ends = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        let Some((length, _)) = inside else {
            return Err(Fault::new("the quotes are not closed", Span { start, end: start + 1 }));
        };
        self.at = start + 1 + length + 1;
        let span = Span { start, end: self.at };
        serde_json::from_str(&self.source[start..self.at])
            .map_err(|_| Fault::new("a text with a line break or an escape that JSON does not have", span))
    }

    fn number(&mut self) -> Result<Data, Fault> {
        let start = self.at;
        let length = self.rest().find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')));
        self.at += length.unwrap_or(self.rest().len());
        let span = Span { start, end: self.at };
        let text = &self.source[start..self.at];
        let number: serde_json::Number =
            serde_json::from_str(text).map_err(|_| Fault::new(format!("{text} is no number of JSON"), span))?;
        let is_whole = !text.contains(['.', 'e', 'E']);
        if is_whole && number.as_i64().is_none() {
            return Err(Fault::new(format!("{text} is too large for a whole number of 64 bits"), span));
        }
        Ok(Data::Number(number))
    }
}
