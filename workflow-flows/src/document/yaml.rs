use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::scalar::plain;
use super::{Bounds, Data, Entry, Fault, Lines, Node, Parsed, Span};

/// A collection that has not ended.
enum Open {
    List { items: Vec<Node>, start: usize },
    Map { entries: Vec<Entry>, keys: HashMap<String, Span>, key: Option<(String, bool, Span)>, start: usize },
}

struct Builder<'s> {
    source: &'s str,
    lines: Lines<'s>,
    bounds: Bounds,
    /// The byte of the last marker and its index in characters. Markers come mostly in order.
    known: (usize, usize),
    open: Vec<Open>,
    root: Option<Node>,
    faults: Vec<Fault>,
}

/// A fault that leaves no tree.
struct Broken;

pub(super) fn parse(source: &str, bounds: Bounds) -> Parsed {
    let mut builder = Builder {
        source,
        lines: Lines::new(source),
        bounds,
        known: (0, 0),
        open: Vec::new(),
        root: None,
        faults: Vec::new(),
    };
    let is_whole = builder.read().is_ok();
    let root = if is_whole { builder.root } else { None };
    Parsed { root, faults: builder.faults }
}

impl Builder<'_> {
    fn read(&mut self) -> Result<(), Broken> {
        let mut documents = 0;
        for event in Parser::new_from_str(self.source) {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => return Err(self.syntax(error.info(), *error.marker())),
            };
            let span = Span { start: self.byte(span.start), end: self.byte(span.end) };
            match event {
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(self.stop("a second document begins", span, "write one flow into a file"));
                    }
                }
                Event::Alias(_) => return Err(self.stop("an alias (*)", span, "write the value out")),
                Event::Scalar(text, style, anchor, tag) => {
                    self.refuse_extras(anchor, tag.is_some(), span)?;
                    self.scalar(&text, style, span)?;
                }
                Event::SequenceStart(anchor, tag) => {
                    self.refuse_extras(anchor, tag.is_some(), span)?;
                    self.begin(Open::List { items: Vec::new(), start: span.start }, span)?;
                }
                Event::MappingStart(anchor, tag) => {
                    self.refuse_extras(anchor, tag.is_some(), span)?;
                    let start = span.start;
                    self.begin(Open::Map { entries: Vec::new(), keys: HashMap::new(), key: None, start }, span)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            }
        }
        if self.root.is_none() {
            return Err(self.stop("the document is empty", Span::default(), "a flow begins with `flow: 1`"));
        }
        Ok(())
    }

    /// Returns the byte of a marker.
    fn byte(&mut self, marker: Marker) -> usize {
        let (mut byte, mut index) = self.known;
        if marker.index() < index {
            (byte, index) = (0, 0);
            // Markers step back within one line at most, so look from the known place backwards.
            let mut back = self.known.1 - marker.index();
            if back < 4096 {
                let mut at = self.known.0;
                while back > 0 {
                    at = self.source[..at].char_indices().next_back().map_or(0, |(start, _)| start);
                    back -= 1;
                }
                (byte, index) = (at, marker.index());
            }
        }
        let ahead = marker.index() - index;
        let rest = self.source.get(byte..).unwrap_or_default();
        byte += rest.char_indices().nth(ahead).map_or(rest.len(), |(at, _)| at);
        self.known = (byte, marker.index().min(index + ahead));
        byte
    }

    fn stop(&mut self, message: &str, span: Span, help: &str) -> Broken {
        self.faults.push(Fault::new(message, span).help(help));
        Broken
    }

    fn syntax(&mut self, info: &str, marker: Marker) -> Broken {
        let mut start = self.byte(marker);
        if self.source[start..].trim().is_empty() {
            // The end of the text, not the line after it.
            start = self.source.trim_end().len();
        }
        let span = Span { start, end: start };
        let line_start = self.source[..start].rfind('\n').map_or(0, |at| at + 1);
        let indent = self.source[line_start..].chars().take_while(|c| c.is_whitespace() && *c != '\n');
        if indent.collect::<String>().contains('\t') {
            let end = line_start + self.source[line_start..].len() - self.source[line_start..].trim_start().len();
            let width = self.source[line_start..end].replace('\t', "  ");
            let fault = Fault::new("a tab in the indentation", Span { start: line_start, end });
            self.faults.push(fault.help("YAML indents with spaces").repair(width));
            return Broken;
        }
        let (message, help) = explain(info, self.source, start);
        self.faults.push(Fault::new(message, span).help(help));
        Broken
    }

    /// Refuses what would let a small document grow, or give a value another type.
    fn refuse_extras(&mut self, anchor: usize, has_tag: bool, span: Span) -> Result<(), Broken> {
        if anchor == 0 && !has_tag {
            return Ok(());
        }
        // The parser gives the place of the value, not that of its anchor or tag.
        let line_start = self.source[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let (what, sign) = if anchor != 0 { ("an anchor (&)", '&') } else { ("a tag (!)", '!') };
        let found = self.source[line_start..].find(sign).map(|at| line_start + at).filter(|at| *at <= span.start);
        let start = found.unwrap_or(span.start);
        let word = self.source[start..].find(char::is_whitespace).map_or(self.source.len(), |at| start + at);
        let end = word + self.source[word..].len() - self.source[word..].trim_start_matches(' ').len();
        let span = Span { start, end };
        self.faults.push(Fault::new(what, span).help("flows have neither anchors nor tags; leave it out").repair(""));
        Err(Broken)
    }

    fn begin(&mut self, open: Open, span: Span) -> Result<(), Broken> {
        if let Some(Open::Map { key: None, .. }) = self.open.last() {
            return Err(self.stop("a list or a map as a key", span, "keys are texts"));
        }
        if self.open.len() >= self.bounds.depth {
            let message = format!("lists and maps are deeper than {}", self.bounds.depth);
            return Err(self.stop(&message, span, "use steps one after the other, or a flow that calls another one"));
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), Broken> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let (data, start) = match open {
            Open::List { items, start } => (Data::List(items), start),
            Open::Map { entries, start, .. } => (Data::Map(entries), start),
        };
        // A block ends where its last value ends, not where the next line begins.
        let end = match &data {
            Data::List(items) if !self.source[..span.end].ends_with(']') => items.last().map(|item| item.span.end),
            Data::Map(entries) if !self.source[..span.end].ends_with('}') => {
                entries.last().map(|entry| entry.value.span.end.max(entry.key_span.end))
            }
            _ => None,
        };
        self.value(Node { data, span: Span { start, end: end.unwrap_or(span.end).max(start) } })
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Result<(), Broken> {
        let span = self.trimmed(span, style);
        if let Some(Open::Map { keys, key: key @ None, .. }) = self.open.last_mut() {
            if text == "<<" && style == ScalarStyle::Plain {
                return Err(self.stop("a merge key (<<)", span, "write the keys out"));
            }
            let is_new = !keys.contains_key(text);
            if let Some(first) = keys.get(text) {
                self.faults.push(Fault::twice(text, self.lines.line(first.start), span));
            } else {
                keys.insert(text.to_owned(), span);
            }
            *key = Some((text.to_owned(), is_new, span));
            return Ok(());
        }
        let data = match style {
            ScalarStyle::Plain => plain(text).unwrap_or_else(|message| {
                let fault = Fault::new(message, span).help("write it in quotes");
                self.faults.push(fault.repair(format!("\"{text}\"")));
                Data::Null
            }),
            _ => Data::Text(text.to_owned()),
        };
        self.value(Node { data, span })
    }

    /// Returns the span of a scalar without the white space that the parser counts to it.
    fn trimmed(&self, span: Span, style: ScalarStyle) -> Span {
        let text = self.source.get(span.start..span.end).unwrap_or_default();
        match style {
            ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => {
                Span { start: span.start, end: span.start + text.trim_end().len() }
            }
            _ => span,
        }
    }

    fn value(&mut self, node: Node) -> Result<(), Broken> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => {
                // The first one of two equal keys counts.
                if let Some((key, true, key_span)) = key.take() {
                    entries.push(Entry { key, key_span, value: node });
                }
            }
        }
        Ok(())
    }
}

/// Says in our words what the parser found.
fn explain(info: &str, source: &str, at: usize) -> (String, String) {
    let found = source[at..].chars().next().map_or_else(|| "the end".to_owned(), |c| format!("'{}'", c.escape_debug()));
    let before = source[..at].trim_end().lines().last().unwrap_or_default().trim();
    if info.contains("mapping values are not allowed") || info.contains("simple key expected") {
        let message = "a value that contains \": \" needs quotes, or this line is indented too far".to_owned();
        return (message, format!("after: {before}"));
    }
    if info.contains("did not find expected node content") {
        return (format!("expected a value, found {found}"), format!("after: {before}"));
    }
    if info.contains("while parsing a flow") || info.contains("expected ','") || info.contains("unclosed bracket") {
        let message = format!("expected \",\" or the closing bracket, found {found}");
        return (message, "a text that begins with { or [ needs quotes, as \"{{input.x}}\"".to_owned());
    }
    if info.contains("quoted scalar") {
        return ("the quotes are not closed".to_owned(), format!("after: {before}"));
    }
    (format!("{info}, found {found}"), format!("after: {before}"))
}
