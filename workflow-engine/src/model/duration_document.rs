/// The form of a [`Duration`](std::time::Duration) in JSON, for documents of an interface.
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = Duration)]
#[non_exhaustive]
pub struct DurationDocument {
    /// Whole seconds.
    pub secs: u64,
    /// The rest, in nanoseconds.
    #[schema(maximum = 999_999_999)]
    pub nanos: u32,
}
