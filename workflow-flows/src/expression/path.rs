use serde_json::Value;

use super::{ExpressionError, Scope};

/// A path such as `steps.fetch.body.items[0]['a b']`: a root and segments.
///
/// Names may contain hyphens, so a path is tried before CEL, where a hyphen subtracts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    root: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Name(String),
    Index(usize),
}

impl Path {
    /// Returns the path, or `None` if the text is no path.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (root, mut rest) = name(text.trim())?;
        if root.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let mut segments = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let (segment, after) = name(after)?;
                segments.push(Segment::Name(segment.to_owned()));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("['") {
                let (segment, after) = after.split_once("']")?;
                segments.push(Segment::Name(segment.to_owned()));
                rest = after;
            } else {
                let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
                segments.push(Segment::Index(index.parse().ok()?));
                rest = after;
            }
        }
        Some(Self { root: root.to_owned(), segments })
    }

    /// Returns the root's name.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the value at the end of the path.
    ///
    /// # Errors
    /// [`ExpressionError::Missing`] with the part of the path that leads nowhere.
    pub fn resolve<'a>(&self, scope: &'a Scope) -> Result<&'a Value, ExpressionError> {
        let missing = |path: String| ExpressionError::Missing { path, hint: String::new() };
        let mut walked = self.root.clone();
        let mut value: &Value = scope.get(&self.root).ok_or_else(|| missing(walked.clone()))?;
        for segment in &self.segments {
            let next = match segment {
                Segment::Name(name) => {
                    walked.push('.');
                    walked.push_str(name);
                    value.get(name)
                }
                Segment::Index(index) => {
                    walked.push_str(&format!("[{index}]"));
                    value.get(index)
                }
            };
            value = next.ok_or_else(|| missing(walked.clone()))?;
        }
        Ok(value)
    }
}

/// Splits off a name: letters, digits, `_` and `-`. `None` if there is none.
fn name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}
