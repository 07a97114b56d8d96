use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The values that an expression sees, by the name of their root: `input`, `steps`, `vars` ..
///
/// A clone shares the values.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    roots: BTreeMap<String, Arc<Value>>,
}

impl Scope {
    /// Creates a scope without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a root, or replaces it.
    #[must_use]
    pub fn with(mut self, root: impl Into<String>, value: impl Into<Arc<Value>>) -> Self {
        self.roots.insert(root.into(), value.into());
        self
    }

    /// Returns the value of a root.
    #[must_use]
    pub fn get(&self, root: &str) -> Option<&Arc<Value>> {
        self.roots.get(root)
    }

    /// Returns the roots in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Value>)> {
        self.roots.iter().map(|(name, value)| (name.as_str(), value))
    }
}
