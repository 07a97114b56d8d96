/// The bounds of the tools for files. See [`tools_with`](super::tools_with).
///
/// ```
/// use workflow_tools::files::Limits;
///
/// let limits = Limits { copy_entries: 100, ..Limits::new(1024 * 1024) };
/// assert_eq!(limits.copy_bytes, 256 * 1024 * 1024);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest file that is read, written or copied, in bytes.
    pub file_bytes: u64,
    /// The bytes of all files that one copy of a directory may have together. Default: 256 MiB, or
    /// `file_bytes` if that is more.
    pub copy_bytes: u64,
    /// The files and directories that one copy of a directory may have together. Default, and the
    /// most that has an effect: 10,000.
    pub copy_entries: usize,
}

impl Limits {
    /// Creates the default limits for files of at most this size, in bytes.
    #[must_use]
    pub const fn new(file_bytes: u64) -> Self {
        const MOST: u64 = 256 * 1024 * 1024;
        let copy_bytes = if file_bytes > MOST { file_bytes } else { MOST };
        Self { file_bytes, copy_bytes, copy_entries: 10_000 }
    }
}
