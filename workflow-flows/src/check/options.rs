use std::fmt;

use super::{Dialect, ToolCatalog};

/// How a document is checked. The default knows no worker, so it checks no names of tools.
#[derive(Clone, Copy, Default)]
pub struct Options<'o> {
    /// The dialect. Default: found out from the document.
    pub dialect: Option<Dialect>,
    /// The name of a flow whose dialect has no place for one. Default: `flow`.
    pub name: Option<&'o str>,
    /// The tools of the worker. `None`: F040 and F041 are not checked.
    pub catalog: Option<&'o dyn ToolCatalog>,
    /// The limits.
    pub limits: Limits,
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("dialect", &self.dialect)
            .field("name", &self.name)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The limits of a flow, which an operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of a document in bytes. Default: 256 KiB.
    pub bytes: usize,
    /// The steps of a flow. Default: 1,000.
    pub steps: usize,
    /// The depth of blocks within blocks. Default: 16.
    pub nesting: usize,
    /// The items or turns of a loop. Default: 10,000.
    pub items: usize,
    /// The branches of a `parallel` or `switch`. Default: 100.
    pub branches: usize,
    /// The size of an expression in bytes. Default: 4 KiB.
    pub expression: usize,
    /// The expressions in one text. Default: 64.
    pub templates: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 256 * 1024,
            steps: 1_000,
            nesting: 16,
            items: 10_000,
            branches: 100,
            expression: 4 * 1024,
            templates: 64,
        }
    }
}
