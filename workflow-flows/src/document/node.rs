use serde_json::Value;

use super::Span;

/// A value of a document with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub data: Data,
    /// The byte range. That of an empty value is empty.
    pub span: Span,
}

/// The value of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(serde_json::Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the document.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The byte range of the key.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Returns the text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the entries, if it is a map.
    #[must_use]
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.data {
            Data::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the items, if it is a list.
    #[must_use]
    pub fn items(&self) -> Option<&[Node]> {
        match &self.data {
            Data::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the value of a key, if it is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the value as JSON, without places.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(is) => Value::Bool(*is),
            Data::Number(number) => Value::Number(number.clone()),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect())
            }
        }
    }

    /// Returns a name for the kind of value, as messages have it: `a text`, `a number` ..
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.data {
            Data::Null => "empty",
            Data::Bool(_) => "true or false",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// Returns the JSON Pointer of the node or key at this place, seen from this node as the root.
    #[must_use]
    pub fn pointer(&self, span: Span) -> String {
        let mut pointer = String::new();
        let mut node = self;
        while node.span != span {
            match &node.data {
                Data::Map(entries) => {
                    let holds = |entry: &&Entry| entry.key_span.contains(span) || entry.value.span.contains(span);
                    let Some(entry) = entries.iter().find(holds) else { break };
                    pointer.push('/');
                    pointer.push_str(&entry.key.replace('~', "~0").replace('/', "~1"));
                    if entry.key_span.contains(span) && !entry.value.span.contains(span) {
                        break;
                    }
                    node = &entry.value;
                }
                Data::List(items) => {
                    let Some(index) = items.iter().position(|item| item.span.contains(span)) else { break };
                    pointer.push_str(&format!("/{index}"));
                    node = &items[index];
                }
                _ => break,
            }
        }
        pointer
    }
}
