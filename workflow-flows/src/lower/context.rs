use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use super::outline::{Outline, Role, Section, Syntax, Use};
use super::reference::{Read, reads, reads_of_jq, rewrite};
use super::{Dialect, jq, opcode};
use crate::check::{Code, Edit, Finding, Fix, Options, Severity};
use crate::document::{Data, Lines, Node, Span};
use crate::expression::{Expression, ExpressionError, bounds, nearest};
use crate::graph::RetryRule;

/// The most findings that are reported.
pub(crate) const MOST_FINDINGS: usize = 100;

/// The defaults of a document for its steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Defaults {
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<RetryRule>,
}

/// The state of a lowering: findings and the outline.
pub(crate) struct Lowering<'s> {
    pub(crate) source: &'s str,
    pub(crate) lines: Lines<'s>,
    pub(crate) root: &'s Node,
    pub(crate) options: &'s Options<'s>,
    pub(crate) dialect: Dialect,
    pub(crate) findings: Vec<Finding>,
    /// The findings that are too many to be told.
    pub(crate) untold: usize,
    pub(crate) outline: Outline,
    /// The step that is being lowered.
    pub(crate) step: Option<usize>,
    pub(crate) section: Section,
    /// The depth of blocks within blocks.
    pub(crate) nesting: usize,
    /// The document's defaults for its steps.
    pub(crate) defaults: Defaults,
    /// In the dialect `opcode`: the steps whose results have a field `output`.
    pub(crate) composites: BTreeSet<String>,
    /// In the dialect `opcode`: the bytes of the fallbacks that were lowered, each as often as a
    /// step names it.
    pub(crate) fallback_bytes: usize,
    spare: Finding,
}

impl<'s> Lowering<'s> {
    pub(crate) fn new(source: &'s str, root: &'s Node, options: &'s Options<'s>, dialect: Dialect) -> Self {
        Self {
            source,
            lines: Lines::new(source),
            root,
            options,
            dialect,
            findings: Vec::new(),
            untold: 0,
            outline: Outline::default(),
            step: None,
            section: Section::Body,
            nesting: 0,
            defaults: Defaults::default(),
            composites: BTreeSet::new(),
            fallback_bytes: 0,
            spare: finding(Code::F001, String::new(), 1, 1, String::new()),
        }
    }

    /// Reports an error at a place of the document.
    pub(crate) fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Finding {
        let pointer = if self.is_full() { String::new() } else { self.pointer(span) };
        self.error_at(code, span.start, pointer, message)
    }

    /// Reports an error at a byte inside of the value at this pointer.
    pub(crate) fn error_at(
        &mut self,
        code: Code,
        byte: usize,
        pointer: String,
        message: impl Into<String>,
    ) -> &mut Finding {
        if self.leaves_out() {
            return &mut self.spare;
        }
        let place = self.lines.place(byte);
        self.findings.push(finding(code, pointer, place.line, place.column, message.into()));
        self.findings.last_mut().unwrap_or(&mut self.spare)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.findings.len() >= MOST_FINDINGS
    }

    /// Returns `true` if the report is full, and then counts the finding as left out. A rule asks
    /// before it looks for a hint: a document may have many faults, and a hint takes time.
    pub(crate) fn leaves_out(&mut self) -> bool {
        let is_full = self.is_full();
        self.untold += usize::from(is_full);
        is_full
    }

    pub(crate) fn pointer(&self, span: Span) -> String {
        self.root.pointer(span)
    }

    /// Returns the value at this pointer.
    pub(crate) fn node_at(&self, pointer: &str) -> Option<&'s Node> {
        let mut node = self.root;
        for segment in pointer.split('/').skip(1) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            node = match &node.data {
                Data::List(items) => items.get(segment.parse::<usize>().ok()?)?,
                _ => node.get(&segment)?,
            };
        }
        Some(node)
    }

    /// Returns the first byte of the value at this pointer.
    pub(crate) fn byte_at(&self, pointer: &str) -> Option<usize> {
        self.node_at(pointer).map(|node| node.span.start)
    }

    /// Returns the line of a place, for a message about another one.
    pub(crate) fn line(&self, span: Span) -> usize {
        self.lines.line(span.start)
    }

    /// Returns the source of a node.
    pub(crate) fn raw(&self, node: &Node) -> &'s str {
        self.source.get(node.span.start..node.span.end).unwrap_or_default()
    }

    /// Reports a value of the wrong kind.
    pub(crate) fn wrong(&mut self, node: &Node, what: &str, wanted: &str) -> &mut Finding {
        let message = format!("{what} is {}; it has to be {wanted}", node.kind());
        self.error(Code::F013, node.span, message)
    }

    /// Reports a value of the wrong kind, with the value that is meant.
    pub(crate) fn replace(&mut self, node: &Node, message: String, value: impl Into<Value>) -> &mut Finding {
        let value = value.into();
        let title = format!("write {value}");
        let fix = Fix::new(title, Edit::Replace { path: self.pointer(node.span), value });
        self.error(Code::F013, node.span, message).fix(fix)
    }

    /// Reads a text.
    pub(crate) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.data {
            Data::Text(text) => Some(text.clone()),
            Data::Number(_) | Data::Bool(_) => {
                let raw = self.raw(node).to_owned();
                let message = format!("{what} is {}; write it in quotes", node.kind());
                self.replace(node, message, raw);
                None
            }
            _ => {
                self.wrong(node, what, "a text");
                None
            }
        }
    }

    /// Reads a list of texts, or one text.
    pub(crate) fn nodes<'n>(&mut self, node: &'n Node) -> Vec<&'n Node> {
        match node.items() {
            Some(items) => items.iter().collect(),
            None => vec![node],
        }
    }

    /// Reads a whole number of a range.
    pub(crate) fn number(&mut self, node: &Node, what: &str, least: u64, most: u64, why: &str) -> Option<u64> {
        let found = match &node.data {
            Data::Number(number) => number.as_i64(),
            Data::Text(text) => {
                if let Ok(number) = text.trim().parse::<i64>() {
                    self.replace(node, format!("{what} is a text; write the number without quotes"), number);
                    return None;
                }
                None
            }
            _ => None,
        };
        let Some(found) = found else {
            self.wrong(node, what, "a whole number");
            return None;
        };
        match u64::try_from(found) {
            Ok(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                let nearest = if found < 0 || found.unsigned_abs() < least { least } else { most };
                let reason = if why.is_empty() { format!("{least} to {most} is its range") } else { why.to_owned() };
                self.replace(node, format!("{what} is {found}; {reason}"), nearest);
                None
            }
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn flag(&mut self, node: &Node, what: &str) -> Option<bool> {
        if let Data::Bool(is) = node.data {
            return Some(is);
        }
        let meant = match node.text().map(str::to_lowercase).as_deref() {
            Some("yes" | "on" | "true" | "y") => Some(true),
            Some("no" | "off" | "false" | "n") => Some(false),
            _ => None,
        };
        match meant {
            Some(meant) => drop(self.replace(node, format!("{what} is a text; write {meant}"), meant)),
            None => drop(self.wrong(node, what, "true or false")),
        }
        None
    }

    /// Reads one of several words.
    pub(crate) fn choice<T: Clone>(&mut self, node: &Node, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let word = self.text(node, what)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == word) {
            return Some(value.clone());
        }
        if self.leaves_out() {
            return None;
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let message = format!("{what} is \"{word}\"; it is one of: {}", names.join(", "));
        match nearest(&word, names.iter().copied()) {
            Some(near) => drop(self.replace(node, format!("{message}; did you mean \"{near}\"?"), near)),
            None => drop(self.error(Code::F013, node.span, message)),
        }
        None
    }

    /// Reads a value whose texts may be templates.
    pub(crate) fn template(&mut self, node: &Node, key: &str, role: Role) -> Value {
        match &node.data {
            Data::Text(text) => Value::String(self.template_of(node, text, key, role)),
            Data::List(items) => items.iter().map(|item| self.template(item, key, role)).collect(),
            Data::Map(entries) => {
                let entry =
                    |entry: &crate::document::Entry| (entry.key.clone(), self.template(&entry.value, key, role));
                Value::Object(entries.iter().map(entry).collect())
            }
            _ => node.to_json(),
        }
    }

    /// Reads a text that may be a template.
    pub(crate) fn template_text(&mut self, node: &Node, key: &str, role: Role) -> Option<String> {
        let text = self.text(node, key)?;
        Some(self.template_of(node, &text, key, role))
    }

    fn template_of(&mut self, node: &Node, text: &str, key: &str, role: Role) -> String {
        let scalar = self.dialect_text(text);
        if !scalar.contains("{{") {
            return scalar;
        }
        let found = match bounds(&scalar) {
            Ok(found) => found,
            Err(error) => {
                self.unclosed(node, text, &scalar, key, &error);
                return scalar;
            }
        };
        let limit = self.options.limits.templates;
        if found.len() > limit {
            let message = format!("the text has {} expressions; {limit} is the limit", found.len());
            self.error(Code::F050, node.span, message);
            return scalar;
        }
        let shared: Rc<str> = scalar.as_str().into();
        let mut written = String::with_capacity(scalar.len());
        let mut at = 0;
        for range in found {
            let inner = &scalar[range.clone()];
            let text = inner.trim();
            let start = range.start + inner.len() - inner.trim_start().len();
            let part = Part { text, scalar: &shared, offset: start, is_bare: false };
            written.push_str(&scalar[at..start]);
            written.push_str(&self.record(node, part, key, role, Syntax::Cel));
            at = start + text.len();
        }
        written.push_str(&scalar[at..]);
        written
    }

    /// Reports an expression or a text in it that has no end.
    fn unclosed(&mut self, node: &Node, text: &str, scalar: &str, key: &str, error: &ExpressionError) {
        let (at, message) = place_of(error, scalar);
        let is_open = scalar[at..].starts_with("{{");
        let byte = self.byte_of(node, text, scalar, at, if is_open { "{{" } else { &scalar[at..] });
        let path = self.pointer(node.span);
        let fix = Edit::Replace { path: path.clone(), value: Value::String(format!("{text}}}}}")) };
        let finding = self.error_at(Code::F033, byte, path, format!("in {key}: {message}"));
        finding.fix = is_open.then(|| Fix::new("close it", fix));
    }

    /// Reads a condition: CEL without braces. Braces around all of it are taken off.
    pub(crate) fn condition(&mut self, node: &Node, key: &str, role: Role) -> Option<String> {
        let text = match &node.data {
            Data::Bool(is) => is.to_string(),
            _ => self.text(node, key)?,
        };
        let scalar = self.dialect_text(&text);
        let trimmed = scalar.trim();
        let inner = match bounds(trimmed).as_deref() {
            Ok([only]) if only.start == 2 && only.end + 2 == trimmed.len() => trimmed[only.clone()].trim(),
            _ => trimmed,
        };
        let offset = inner.as_ptr() as usize - scalar.as_ptr() as usize;
        let part = Part { text: inner, scalar: &scalar.as_str().into(), offset, is_bare: inner == trimmed };
        Some(self.record(node, part, key, role, Syntax::Cel))
    }

    /// Reads a jq program.
    pub(crate) fn jq(&mut self, node: &Node, key: &str) -> Option<String> {
        let text = self.text(node, key)?;
        let part = Part { text: &text, scalar: &text.as_str().into(), offset: 0, is_bare: true };
        Some(self.record(node, part, key, Role::Plain, Syntax::Jq))
    }

    /// Notes an expression that was translated from Expr. Returns it as the graph has it.
    pub(crate) fn translated(&mut self, node: &Node, text: &str, key: &str) -> String {
        let part = Part { text, scalar: &text.into(), offset: 0, is_bare: true };
        self.record(node, part, key, Role::Plain, Syntax::Expr)
    }

    /// Returns the byte in the source of a byte of a text, or the first one of a text with escapes.
    pub(crate) fn byte_in(&self, node: &Node, at: usize) -> usize {
        let text = node.text().unwrap_or_default();
        let before = text.get(..at).unwrap_or(text);
        let raw = self.raw(node);
        let quote = usize::from(raw.starts_with(['"', '\'']));
        let is_there = raw.get(quote..).is_some_and(|rest| rest.starts_with(before));
        node.span.start + if is_there { quote + at } else { 0 }
    }

    /// Notes a part of a text as a jq program that reads the data of a task, not the results of
    /// steps.
    pub(crate) fn data_program(&mut self, node: &Node, text: &str, part: Range<usize>, key: &str) {
        let program = text.get(part.clone()).unwrap_or_default();
        let part = Part { text: program, scalar: &text.into(), offset: part.start, is_bare: true };
        self.record(node, part, key, Role::Plain, Syntax::Jq);
        if let Some(noted) = self.outline.uses.last_mut() {
            noted.reads.clear();
        }
    }

    /// Returns a text of the document as a template of the graph.
    fn dialect_text(&self, text: &str) -> String {
        if self.dialect == Dialect::Opcode { opcode::text(text) } else { text.to_owned() }
    }

    /// Notes an expression for the checks. Returns it as the graph has it.
    fn record(&mut self, node: &Node, part: Part<'_>, key: &str, role: Role, syntax: Syntax) -> String {
        let Part { text, scalar, offset, is_bare } = part;
        let mut noted = Use {
            step: self.step,
            section: self.section,
            role,
            syntax,
            key: key.to_owned(),
            text: text.to_owned(),
            original: text.to_owned(),
            scalar: scalar.clone(),
            offset,
            span: node.span,
            start: self.byte_of(node, node.text().unwrap_or(scalar), scalar, offset, text),
            is_bare,
            reads: Vec::new(),
            kind: None,
            fault: None,
        };
        // A long expression is reported as such, and not read.
        if text.len() <= self.options.limits.expression {
            match syntax {
                Syntax::Jq => {
                    noted.fault = jq::fault(text);
                    noted.reads = reads_of_jq(text);
                }
                Syntax::Cel | Syntax::Expr => match Expression::compile(text) {
                    Ok(expression) => {
                        noted.reads = reads(text, &expression);
                        noted.kind = expression.kind();
                        noted.text = self.rewrite(text, &noted.reads, is_bare);
                    }
                    Err(error) => noted.fault = Some(place_of(&error, text)),
                },
            }
        }
        let written = noted.text.clone();
        self.outline.uses.push(noted);
        written
    }

    fn rewrite(&self, text: &str, reads: &[Read], is_bare: bool) -> String {
        let none = BTreeSet::new();
        let keeps = if is_bare { &self.composites } else { &none };
        rewrite(text, reads, |read| (self.dialect == Dialect::Opcode).then(|| opcode::edit(read, keeps))?)
    }

    /// Returns the byte in the source at which a part of a scalar stands.
    fn byte_of(&self, node: &Node, original: &str, scalar: &str, offset: usize, part: &str) -> usize {
        let raw = self.raw(node);
        if original == scalar {
            if raw == scalar {
                return node.span.start + offset;
            }
            if raw.len() == scalar.len() + 2 && raw.get(1..raw.len() - 1) == Some(scalar) {
                return node.span.start + 1 + offset;
            }
        }
        // Escapes or folded lines: the part up to the first of them is looked for, as often as it
        // stands before.
        let part = part.split(['"', '\\', '\n']).next().unwrap_or_default();
        let before = scalar.get(..offset).map_or(0, |before| before.matches(part).count());
        let found = if part.is_empty() { None } else { raw.match_indices(part).nth(before) };
        node.span.start + found.map_or(0, |(at, _)| at)
    }
}

/// A part of a scalar.
struct Part<'e> {
    text: &'e str,
    scalar: &'e Rc<str>,
    offset: usize,
    is_bare: bool,
}

/// Returns the byte and the message of an error in a text.
fn place_of(error: &ExpressionError, text: &str) -> (usize, String) {
    let (column, message) = match error {
        ExpressionError::Syntax { message, column } => (*column, message.clone()),
        other => (1, other.to_string()),
    };
    let byte = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    (byte, message)
}

fn finding(code: Code, path: String, line: usize, column: usize, message: String) -> Finding {
    Finding { code, severity: Severity::Error, path, line, column, message, help: String::new(), fix: None }
}
