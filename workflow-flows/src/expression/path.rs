use std::fmt;

use serde_json::Value;

use super::{ExpressionError, ResultKind, Scope, nearest};

/// A path such as `steps.fetch.body.items[0]['a b']`: a root and segments.
///
/// Names may contain hyphens, so a path is tried before CEL, where a hyphen subtracts. Synonyms of
/// roots are replaced: `inputs` by `input`, `step` by `steps`, `loop.item` by `item`.
///
/// ```
/// use workflow_flows::expression::Path;
///
/// let path = Path::parse("step.hash-payload.digest[0]").unwrap();
/// assert_eq!(path.root(), "steps");
/// assert_eq!(path.to_string(), "steps.hash-payload.digest[0]");
/// assert!(Path::parse("input.n + 1").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    root: String,
    segments: Vec<Segment>,
}

/// One part of a [`Path`], after its root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Segment {
    /// The member of an object.
    Name(String),
    /// The item of a list, from 0.
    Index(usize),
}

impl Path {
    /// Returns the path, or `None` if the text is no path.
    ///
    /// The literals `true`, `false` and `null` are no paths.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (root, mut rest) = name(text.trim())?;
        if root.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            return None;
        }
        let mut segments = Vec::new();
        while !rest.is_empty() {
            let (segment, after) = segment(rest)?;
            segments.push(segment);
            rest = after;
        }
        if segments.is_empty() && matches!(root, "true" | "false" | "null") {
            return None;
        }
        Some(Self::of(root, segments))
    }

    /// Creates a path of its parts, with the synonyms replaced.
    pub(super) fn of(root: &str, mut segments: Vec<Segment>) -> Self {
        let first = match segments.first() {
            Some(Segment::Name(name)) => name.as_str(),
            _ => "",
        };
        let (root, skipped) = usual(root, first);
        segments.drain(..skipped);
        Self { root: root.to_owned(), segments }
    }

    /// Returns the root's name.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the parts after the root.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the value at the end of the path.
    ///
    /// # Errors
    /// [`ExpressionError::Missing`] with the part of the path that leads nowhere, and a hint: the
    /// nearest name, the length of the list, or the type of the value that has no parts.
    pub fn resolve<'a>(&self, scope: &'a Scope) -> Result<&'a Value, ExpressionError> {
        let Some(root) = scope.get(&self.root) else {
            let names = scope.iter().map(|(name, _)| name);
            let hint = nearest(&self.root, names).map_or_else(String::new, did_you_mean);
            return Err(ExpressionError::Missing { path: self.root.clone(), hint });
        };
        let mut value: &Value = root;
        for (at, segment) in self.segments.iter().enumerate() {
            value = segment.of(value).ok_or_else(|| self.missing(at, value))?;
        }
        Ok(value)
    }

    /// Returns the value at the end of the path, for a caller that makes no error if there is none.
    pub(super) fn find<'a>(&self, scope: &'a Scope) -> Option<&'a Value> {
        let root: &Value = scope.get(&self.root)?;
        self.segments.iter().try_fold(root, |value, segment| segment.of(value))
    }

    /// Describes that `parent` has no segment `at`.
    fn missing(&self, at: usize, parent: &Value) -> ExpressionError {
        let walked = Self { root: self.root.clone(), segments: self.segments.iter().take(at + 1).cloned().collect() };
        let hint = match (parent, self.segments.get(at)) {
            (Value::Object(members), Some(Segment::Name(name))) => member_hint(name, members),
            (Value::Array(items), Some(Segment::Index(_))) => format!("; the list has {} items", items.len()),
            _ => {
                let parent_path =
                    Self { root: self.root.clone(), segments: self.segments.iter().take(at).cloned().collect() };
                format!("; {parent_path} is {}", ResultKind::of(parent).name())
            }
        };
        ExpressionError::Missing { path: walked.to_string(), hint }
    }
}

impl Segment {
    /// Returns the member or the item of a value.
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Name(name) => value.get(name),
            Self::Index(index) => value.get(index),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        for segment in &self.segments {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Name(text) if name(text).is_some_and(|(_, rest)| rest.is_empty()) => write!(f, ".{text}")?,
                Segment::Name(text) if text.contains('\'') => write!(f, "[\"{text}\"]")?,
                Segment::Name(text) => write!(f, "['{text}']")?,
            }
        }
        Ok(())
    }
}

/// Returns the usual name of a root, and how many of the segments after it belong to its synonym.
/// `first` is the name of the first segment, or empty.
pub(super) fn usual<'a>(root: &'a str, first: &str) -> (&'a str, usize) {
    match (root, first) {
        ("workflow_input" | "inputs", _) => ("input", 0),
        ("step", _) => ("steps", 0),
        ("loop_item", _) => ("item", 0),
        ("loop" | "iter", "item") => ("item", 1),
        ("loop" | "iter", "index") => ("index", 1),
        _ => (root, 0),
    }
}

/// Returns the hint for a member that does not exist: the nearest name, or a subtraction.
fn member_hint(name: &str, members: &serde_json::Map<String, Value>) -> String {
    if let Some((left, right)) = name.split_once('-')
        && members.contains_key(left)
    {
        return format!("; to subtract, write spaces: {left} - {right}");
    }
    nearest(name, members.keys().map(String::as_str)).map_or_else(String::new, did_you_mean)
}

fn did_you_mean(name: &str) -> String {
    format!("; did you mean {name:?}?")
}

/// Splits off a segment. `None` if the text does not begin with one.
fn segment(text: &str) -> Option<(Segment, &str)> {
    if let Some(after) = text.strip_prefix('.') {
        let (found, after) = name(after)?;
        return Some((Segment::Name(found.to_owned()), after));
    }
    for (open, close) in [("['", "']"), ("[\"", "\"]")] {
        if let Some(after) = text.strip_prefix(open) {
            let (found, after) = after.split_once(close)?;
            // An escape or a quote inside is left to CEL.
            let plain = !found.contains(['\\', '\'', '"']);
            return plain.then(|| (Segment::Name(found.to_owned()), after));
        }
    }
    let (index, after) = text.strip_prefix('[')?.split_once(']')?;
    let is_number = !index.is_empty() && index.bytes().all(|digit| digit.is_ascii_digit());
    Some((Segment::Index(is_number.then(|| index.parse().ok())??), after))
}

/// Splits off a name: letters, digits, `_` and `-`. `None` if there is none.
fn name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}
