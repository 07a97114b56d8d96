use super::Path;

/// A path that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reference {
    /// The path, as far as it is known without an evaluation.
    pub path: Path,
    /// The column at which it begins in the text that was parsed, from 1.
    pub column: usize,
    /// Whether the expression goes on if the path leads nowhere: `??`, `has()` or `.?`.
    pub optional: bool,
}
