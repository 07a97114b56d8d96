use std::fmt;

/// Shows a payload in Debug output as its size, because Debug output is logged.
pub(super) struct Hidden<'a>(&'a str);

impl<'a> Hidden<'a> {
    pub(super) fn new(payload: &'a str) -> Self {
        Self(payload)
    }
}

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}
