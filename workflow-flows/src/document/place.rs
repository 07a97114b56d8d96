/// A byte range of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// Returns `true` if the range has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns `true` if the other range lies in this one.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// A line and a column, both from 1. The column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The beginnings of the lines of a source.
#[derive(Debug, Clone)]
pub struct Lines<'s> {
    source: &'s str,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    /// Finds the lines of a source.
    #[must_use]
    pub fn new(source: &'s str) -> Self {
        let breaks = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { source, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// Returns the line of a byte, from 1.
    pub(crate) fn line(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte)
    }

    /// Returns the place of a byte. A byte after the end stands at the end.
    #[must_use]
    pub fn place(&self, byte: usize) -> Place {
        let byte = byte.min(self.source.len());
        let line = self.line(byte);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.source.get(start..byte).unwrap_or_default();
        Place { line, column: before.chars().count() + 1 }
    }
}
