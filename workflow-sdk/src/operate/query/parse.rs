//! Reads the text of a query.

use workflow_engine::model::{RunStatus, WorkerId};

use super::words::{NAMES, NAMES_FOR_LATER, nearest};
use super::{DurationTest, Fact, Pattern, Query, QueryError, QueryErrorKind, Term, Test, TimeTest};

const QUOTES_HELP: &str = r#"put the whole value in quotes, with \" and \\ in place of " and \"#;

/// Reads the words of a query.
pub(super) fn query(text: &str) -> Result<Vec<Term>, QueryError> {
    let mut reader = Reader { text, at: 0, word: 0 };
    if text.len() > Query::MAX_BYTES {
        let help = format!("use at most {} bytes", Query::MAX_BYTES);
        return Err(reader.error(QueryErrorKind::TooLong, 0, format!("it has {} bytes", text.len()), help));
    }
    if let Some(at) = text.find('\0') {
        let message = "no name or value has the character NUL".to_owned();
        return Err(reader.error(QueryErrorKind::BadValue, at, message, "leave it out".to_owned()));
    }
    let mut terms = Vec::new();
    while reader.skip_spaces() {
        if terms.len() == Query::MAX_WORDS {
            let help = format!("use at most {} words", Query::MAX_WORDS);
            return Err(reader.error(QueryErrorKind::TooLong, reader.at, "there are too many words".to_owned(), help));
        }
        terms.push(reader.term()?);
    }
    Ok(terms)
}

/// A text and a place in it, which is always between two characters.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Where the present word begins.
    word: usize,
}

/// A value, before its word has understood it.
struct Value {
    text: String,
    /// A `*` outside of quotes ends it, which is not part of the text.
    has_star: bool,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Moves to the next word. Returns `false` at the end of the text.
    fn skip_spaces(&mut self) -> bool {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.word = self.at;
        !self.rest().is_empty()
    }

    fn skip(&mut self, c: char) -> bool {
        let is_next = self.rest().starts_with(c);
        self.at += if is_next { c.len_utf8() } else { 0 };
        is_next
    }

    fn term(&mut self) -> Result<Term, QueryError> {
        let negated = self.skip('-');
        let name_at = self.at;
        let name = self.plain_until(|c| c == ':' || c == '.' || c == '"' || c.is_whitespace());
        if name == "tag" && self.skip('.') {
            let tag = self.tag_name()?;
            let value = self.value("tag")?;
            self.refuse_star(&value)?;
            return Ok(Term { negated, test: Test::Tag(tag, value.text) });
        }
        if let Some((_, until_then)) = NAMES_FOR_LATER.into_iter().find(|(later, _)| *later == name) {
            let message = format!("this release cannot search for {name}");
            return Err(self.error(QueryErrorKind::NotSupported, name_at, message, until_then.to_owned()));
        }
        if name == "tag" || !self.rest().starts_with(':') {
            let (message, help) = match name {
                "tag" => ("a tag needs its name".to_owned(), "write tag.NAME:VALUE".to_owned()),
                _ => {
                    let help =
                        format!("write for example workflow:{}", if name.is_empty() { "checkout" } else { name });
                    ("a word is NAME:VALUE".to_owned(), help)
                }
            };
            return Err(self.error(QueryErrorKind::NotAWord, name_at, message, help));
        }
        let test = self.test(name, name_at)?;
        if negated && matches!(test, Test::Started(_) | Test::Ended(_) | Test::Duration(_)) {
            let help = "turn the comparison around: <= in place of >, for example".to_owned();
            let message = "a time or a duration cannot be negated".to_owned();
            return Err(self.error(QueryErrorKind::NotNegatable, self.word, message, help));
        }
        Ok(Term { negated, test })
    }

    fn test(&mut self, name: &str, name_at: usize) -> Result<Test, QueryError> {
        if !NAMES.contains(&name) {
            let message = format!("no word has the name {:?}", shortened(name));
            return Err(self.error(QueryErrorKind::UnknownName, name_at, message, suggestion(name, NAMES)));
        }
        let value = self.value(name)?;
        let pattern = |value: Value| Pattern { text: value.text, is_prefix: value.has_star };
        match name {
            "workflow" => return Ok(Test::Workflow(pattern(value))),
            "queue" => return Ok(Test::Queue(pattern(value))),
            "version" => return Ok(Test::Version(pattern(value))),
            "gate" => return Ok(Test::Gate(pattern(value))),
            "key" => return Ok(Test::Key(pattern(value))),
            _ => self.refuse_star(&value)?,
        }
        match name {
            "schedule" => Ok(Test::Schedule(value.text)),
            "error" if value.text.is_empty() => {
                let help = "write a part of the message, for example error:timeout".to_owned();
                Err(self.error(QueryErrorKind::NoValue, value.at, "the word has no value".to_owned(), help))
            }
            "error" => Ok(Test::Error(value.text)),
            "status" => self.status(&value).map(Test::Status),
            "is" => self.fact(&value),
            "started" => self.time(&value).map(Test::Started),
            "ended" => self.time(&value).map(Test::Ended),
            "duration" => self.duration(&value).map(Test::Duration),
            "parent" => {
                let id = value.text.parse();
                id.map(Test::Parent).map_err(|_| self.bad_id("run", &value))
            }
            _ => {
                let id = value.text.parse::<uuid::Uuid>().map(WorkerId::from);
                id.map(Test::Worker).map_err(|_| self.bad_id("worker", &value))
            }
        }
    }

    fn status(&self, value: &Value) -> Result<RunStatus, QueryError> {
        RunStatus::parse(&value.text).ok_or_else(|| {
            let message = format!("there is no status {:?}", shortened(&value.text));
            let help = suggestion(&value.text, RunStatus::ALL.map(RunStatus::as_str));
            self.error(QueryErrorKind::BadValue, value.at, message, help)
        })
    }

    /// A status is a fact too: `is:parked` is read as `status:parked`.
    fn fact(&self, value: &Value) -> Result<Test, QueryError> {
        let word = value.text.as_str();
        let test = Fact::parse(word).map(Test::Is).or_else(|| RunStatus::parse(word).map(Test::Status));
        test.ok_or_else(|| {
            let known = Fact::ALL.map(Fact::as_str).into_iter().chain(RunStatus::ALL.map(RunStatus::as_str));
            let message = format!("{:?} is not a fact about runs", shortened(word));
            self.error(QueryErrorKind::BadValue, value.at, message, suggestion(word, known))
        })
    }

    fn time(&self, value: &Value) -> Result<TimeTest, QueryError> {
        TimeTest::parse(&value.text).ok_or_else(|| {
            let message = format!("{:?} is not a comparison with a time", shortened(&value.text));
            let help = "write for example >-1h, <2026-11-01, >=2026-11-01T08:00Z or 2026-11-01..2026-11-02, in UTC";
            self.error(QueryErrorKind::BadValue, value.at, message, help.to_owned())
        })
    }

    fn duration(&self, value: &Value) -> Result<DurationTest, QueryError> {
        DurationTest::parse(&value.text).ok_or_else(|| {
            let message = format!("{:?} is not a comparison with a duration", shortened(&value.text));
            let help = "write for example >5m, <=90s or 1h..2d";
            self.error(QueryErrorKind::BadValue, value.at, message, help.to_owned())
        })
    }

    fn bad_id(&self, of: &str, value: &Value) -> QueryError {
        let message = format!("{:?} is not the id of a {of}", shortened(&value.text));
        self.error(QueryErrorKind::BadValue, value.at, message, "write the whole id, a UUID".to_owned())
    }

    fn refuse_star(&self, value: &Value) -> Result<(), QueryError> {
        if !value.has_star {
            return Ok(());
        }
        let help = "write the whole value; a * that is part of it stands in quotes".to_owned();
        Err(self.error(QueryErrorKind::BadValue, value.at, "this word takes no *".to_owned(), help))
    }

    /// Reads the name of a tag, up to the colon behind it.
    fn tag_name(&mut self) -> Result<String, QueryError> {
        let at = self.at;
        let name = if self.rest().starts_with('"') {
            self.quoted()?
        } else {
            self.plain_until(|c| c == ':' || c == '"' || c.is_whitespace()).to_owned()
        };
        if name.is_empty() || !self.rest().starts_with(':') {
            let (message, help) = ("a tag is tag.NAME:VALUE".to_owned(), "write for example tag.region:eu".to_owned());
            return Err(self.error(QueryErrorKind::NotAWord, at, message, help));
        }
        Ok(name)
    }

    /// Reads a value, with the colon before it.
    fn value(&mut self, name: &str) -> Result<Value, QueryError> {
        self.skip(':');
        let at = self.at;
        let value = if self.rest().starts_with('"') {
            let text = self.quoted()?;
            Value { text, has_star: self.skip('*'), at }
        } else {
            let text = self.plain_until(|c| c == '"' || c.is_whitespace());
            let plain = text.strip_suffix('*');
            Value { text: plain.unwrap_or(text).to_owned(), has_star: plain.is_some(), at }
        };
        if !self.rest().is_empty() && !self.rest().starts_with(char::is_whitespace) {
            let message = "a quote stands in the middle of a value".to_owned();
            return Err(self.error(QueryErrorKind::BadQuotes, self.at, message, QUOTES_HELP.to_owned()));
        }
        if self.at == at {
            let help = format!(
                "write it right behind the colon{}",
                if name == "tag" { r#"; the empty value of a tag is """# } else { "" }
            );
            return Err(self.error(QueryErrorKind::NoValue, at, "the word has no value".to_owned(), help));
        }
        Ok(value)
    }

    /// Reads a text in quotes.
    fn quoted(&mut self) -> Result<String, QueryError> {
        let at = self.at;
        self.skip('"');
        let mut text = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((offset, c)) = characters.next() {
            match c {
                '"' => {
                    self.at += offset + 1;
                    return Ok(text);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                    _ => {
                        let message = "after \\ stands neither a quote nor another \\".to_owned();
                        let at = self.at + offset;
                        return Err(self.error(QueryErrorKind::BadQuotes, at, message, QUOTES_HELP.to_owned()));
                    }
                },
                c => text.push(c),
            }
        }
        let help = "close it with another quote".to_owned();
        Err(self.error(QueryErrorKind::BadQuotes, at, "a quote is not closed".to_owned(), help))
    }

    /// Reads up to the first character that ends the text.
    fn plain_until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let text = rest.split(ends).next().unwrap_or_default();
        self.at += text.len();
        text
    }

    fn error(&self, kind: QueryErrorKind, byte: usize, message: String, help: String) -> QueryError {
        let before = self.text.get(..byte).unwrap_or(self.text);
        let word = self.text.get(self.word..).unwrap_or_default().split_whitespace().next().unwrap_or_default();
        QueryError { kind, word: shortened(word), byte, column: before.chars().count() + 1, message, help }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Says which known word may be meant, or lists them.
fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}
