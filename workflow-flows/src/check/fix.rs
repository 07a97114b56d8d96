use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{Bounds, Data, Entry, Node, Span, parse};

/// Edits of a document that repair one finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// Says what the edits do, as a short order: `rename "retires" to "retry"`.
    pub title: String,
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

/// One edit: an operation of JSON Patch (RFC 6902) on the document as JSON, or a change of its
/// text where the document is not readable as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Edit {
    /// Adds a value.
    Add {
        /// The JSON Pointer of the new value.
        path: String,
        /// The value.
        value: Value,
    },
    /// Removes a value.
    Remove {
        /// The JSON Pointer.
        path: String,
    },
    /// Replaces a value.
    Replace {
        /// The JSON Pointer.
        path: String,
        /// The new value.
        value: Value,
    },
    /// Moves a value: renames a key, mostly.
    Move {
        /// The JSON Pointer of the old place.
        from: String,
        /// The JSON Pointer of the new place.
        path: String,
    },
    /// Replaces bytes of the source.
    Text {
        /// The first byte.
        start: usize,
        /// The byte after the last.
        end: usize,
        /// The new text.
        text: String,
    },
}

/// Why a fix cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the fix does not fit the document: {0}")]
pub struct FixError(String);

impl Fix {
    /// Creates a fix of one edit.
    pub(crate) fn new(title: impl Into<String>, edit: Edit) -> Self {
        Self { title: title.into(), edits: vec![edit] }
    }

    /// Adds an edit.
    pub(crate) fn and(mut self, edit: Edit) -> Self {
        self.edits.push(edit);
        self
    }

    /// Returns the document with the edits. Edits of the text keep the document's form; others
    /// give JSON.
    ///
    /// # Errors
    /// [`FixError`] if a path or a range does not exist in the document.
    ///
    /// ```
    /// use workflow_flows::check::{Options, check};
    ///
    /// let source = "flow: 1\nname: hello\ndo: [ { id: a, tol: log } ]\n";
    /// let checked = check(source, &Options::default());
    /// let fix = checked.findings[0].fix.as_ref().ok_or("no fix")?;
    /// assert!(check(&fix.apply(source)?, &Options::default()).flow.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply(&self, source: &str) -> Result<String, FixError> {
        let mut text = source.to_owned();
        let mut ranges: Vec<_> = self.edits.iter().filter_map(Edit::range).collect();
        ranges.sort_by_key(|(start, ..)| std::cmp::Reverse(*start));
        for (start, end, new) in &ranges {
            let range = *start..*end;
            if text.get(range.clone()).is_none() {
                return Err(FixError(format!("it has no bytes {start} to {end}")));
            }
            text.replace_range(range, new);
        }
        if ranges.len() == self.edits.len() {
            return Ok(text);
        }
        let mut root = parse(&text, Bounds::default()).root.ok_or_else(|| FixError("it has no tree".to_owned()))?;
        for edit in &self.edits {
            edit.apply(&mut root)?;
        }
        let mut json = String::new();
        write(&root, 0, &mut json);
        json.push('\n');
        Ok(json)
    }
}

impl Edit {
    fn range(&self) -> Option<(usize, usize, &str)> {
        match self {
            Self::Text { start, end, text } => Some((*start, *end, text)),
            _ => None,
        }
    }

    fn apply(&self, root: &mut Node) -> Result<(), FixError> {
        match self {
            Self::Text { .. } => Ok(()),
            Self::Add { path, value } => add(root, path, node(value)),
            Self::Remove { path } => remove(root, path).map(drop),
            Self::Replace { path, value } => {
                *find(root, path)? = node(value);
                Ok(())
            }
            Self::Move { from, path } => {
                if parent(from) == parent(path) && rename(root, from, path)? {
                    return Ok(());
                }
                let moved = remove(root, from)?;
                add(root, path, moved)
            }
        }
    }
}

fn node(value: &Value) -> Node {
    let data = match value {
        Value::Null => Data::Null,
        Value::Bool(is) => Data::Bool(*is),
        Value::Number(number) => Data::Number(number.clone()),
        Value::String(text) => Data::Text(text.clone()),
        Value::Array(items) => Data::List(items.iter().map(node).collect()),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| Entry {
                key: key.clone(),
                key_span: Span::default(),
                value: node(value),
            };
            Data::Map(map.iter().map(entry).collect())
        }
    };
    Node { data, span: Span::default() }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn last(path: &str) -> String {
    unescape(path.rsplit_once('/').map_or("", |(_, last)| last))
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

fn missing(path: &str) -> FixError {
    FixError(format!("it has no {path}"))
}

fn find<'n>(root: &'n mut Node, path: &str) -> Result<&'n mut Node, FixError> {
    let mut node = root;
    for segment in path.split('/').skip(1).map(unescape) {
        let next = match &mut node.data {
            Data::Map(entries) => entries.iter_mut().find(|entry| entry.key == segment).map(|entry| &mut entry.value),
            Data::List(items) => segment.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
            _ => None,
        };
        node = next.ok_or_else(|| missing(path))?;
    }
    Ok(node)
}

fn add(root: &mut Node, path: &str, value: Node) -> Result<(), FixError> {
    let key = last(path);
    match &mut find(root, parent(path))?.data {
        Data::Map(entries) => {
            entries.retain(|entry| entry.key != key);
            entries.push(Entry { key, key_span: Span::default(), value });
        }
        Data::List(items) if key == "-" => items.push(value),
        Data::List(items) => {
            let index = key.parse().ok().filter(|index| *index <= items.len()).ok_or_else(|| missing(path))?;
            items.insert(index, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn remove(root: &mut Node, path: &str) -> Result<Node, FixError> {
    let key = last(path);
    match &mut find(root, parent(path))?.data {
        Data::Map(entries) => {
            let index = entries.iter().position(|entry| entry.key == key).ok_or_else(|| missing(path))?;
            Ok(entries.remove(index).value)
        }
        Data::List(items) => {
            let index = key.parse().ok().filter(|index| *index < items.len()).ok_or_else(|| missing(path))?;
            Ok(items.remove(index))
        }
        _ => Err(missing(path)),
    }
}

/// Renames a key in its place, because the order of the steps of a graph counts.
fn rename(root: &mut Node, from: &str, path: &str) -> Result<bool, FixError> {
    let (old, new) = (last(from), last(path));
    let Data::Map(entries) = &mut find(root, parent(from))?.data else { return Ok(false) };
    if entries.iter().any(|entry| entry.key == new) {
        return Ok(false);
    }
    let entry = entries.iter_mut().find(|entry| entry.key == old).ok_or_else(|| missing(from))?;
    entry.key = new;
    Ok(true)
}

/// Writes a tree as JSON in the order of the document.
fn write(node: &Node, depth: usize, out: &mut String) {
    let indent = |depth: usize| "  ".repeat(depth);
    let text = |text: &str| Value::String(text.to_owned()).to_string();
    match &node.data {
        Data::List(items) if items.is_empty() => out.push_str("[]"),
        Data::Map(entries) if entries.is_empty() => out.push_str("{}"),
        Data::List(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "[\n" } else { ",\n" });
                out.push_str(&indent(depth + 1));
                write(item, depth + 1, out);
            }
            out.push_str(&format!("\n{}]", indent(depth)));
        }
        Data::Map(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "{\n" } else { ",\n" });
                out.push_str(&format!("{}{}: ", indent(depth + 1), text(&entry.key)));
                write(&entry.value, depth + 1, out);
            }
            out.push_str(&format!("\n{}}}", indent(depth)));
        }
        scalar => out.push_str(&Node { data: scalar.clone(), span: node.span }.to_json().to_string()),
    }
}
