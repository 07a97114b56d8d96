use super::outcomes::MissingOutcome;

/// An open transaction of a database.
pub trait Target: Send {
    /// An error of the database.
    type Error: From<MissingOutcome>;
}
