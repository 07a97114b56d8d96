//! Items of streams, as stores return them.

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmittedItem {
    /// Its number.
    pub number: i64,
    /// The item as JSON text.
    pub item: String,
}
