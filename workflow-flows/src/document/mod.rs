//! Documents: YAML 1.2 or JSON as a tree in which each value knows its place.
//!
//! The parser accepts less than YAML: no anchors, aliases, tags or merge keys, no key twice, and
//! no document larger or deeper than [`Bounds`] allow. So a hostile document is refused before it
//! costs more than its own size.

mod json;
mod node;
mod place;
mod scalar;
mod yaml;

pub use node::{Data, Entry, Node};
pub use place::{Lines, Place, Span};

/// The limits of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The size in bytes. Default: 256 KiB.
    pub bytes: usize,
    /// The depth of lists and maps. Default: 64.
    pub depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 256 * 1024, depth: 64 }
    }
}

/// A fault of the syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Says what is wrong.
    pub message: String,
    /// Says what would be right. Empty if there is no more to say.
    pub help: String,
    /// The byte range in the source.
    pub span: Span,
    /// The text that repairs it in place of the span, if one is known.
    pub repair: Option<String>,
}

impl Fault {
    fn new(message: impl Into<String>, span: Span) -> Self {
        Self { message: message.into(), help: String::new(), span, repair: None }
    }

    /// Reports a key that stands twice.
    fn twice(key: &str, first_line: usize, span: Span) -> Self {
        Self::new(format!("the key \"{key}\" stands twice; first in line {first_line}"), span).help("keep one of them")
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    fn repair(mut self, text: impl Into<String>) -> Self {
        self.repair = Some(text.into());
        self
    }
}

/// The outcome of [`parse`].
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The tree. `None` if the syntax leaves no tree.
    pub root: Option<Node>,
    /// The faults, in the order of their places. A document with faults must not be used.
    pub faults: Vec<Fault>,
}

/// Parses a document. JSON is tried first if it begins as JSON does.
///
/// ```
/// use workflow_flows::document::{Bounds, parse};
///
/// let parsed = parse("flow: 1\nname: hello\n", Bounds::default());
/// assert!(parsed.faults.is_empty());
///
/// let parsed = parse("a: 1\na: 2\n", Bounds::default());
/// assert!(parsed.faults[0].message.contains("twice"));
/// ```
#[must_use]
pub fn parse(source: &str, bounds: Bounds) -> Parsed {
    if source.len() > bounds.bytes {
        let message = format!("the document has {} bytes; {} is the limit", source.len(), bounds.bytes);
        let fault = Fault::new(message, Span { start: 0, end: 0 }).help("split it into flows that call each other");
        return Parsed { root: None, faults: vec![fault] };
    }
    if !source.trim_start().starts_with(['{', '[']) {
        return yaml::parse(source, bounds);
    }
    let json = json::parse(source, bounds);
    if json.root.is_some() {
        return json;
    }
    // YAML allows more in braces than JSON does.
    let yaml = yaml::parse(source, bounds);
    if yaml.faults.is_empty() { yaml } else { json }
}
