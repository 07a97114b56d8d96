//! The list of a server's tools, page by page.
//!
//! Another party decides how many pages there are, so the list has bounds.

use std::collections::HashSet;

use serde_json::Value;
use workflow_flows::ToolError;

use crate::arguments::invalid;

/// The most pages of a list.
const MOST_PAGES: usize = 100;
/// The most tools of a server.
const MOST_TOOLS: usize = 5_000;
/// The largest list, in bytes.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A tool as its server describes it.
pub(super) struct Described {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) input_schema: Value,
    pub(super) output_schema: Option<Value>,
}

/// The tools of the pages so far.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<Described>,
    pages: usize,
    bytes: usize,
    cursors: HashSet<String>,
}

impl Listing {
    /// Adds a page of so many bytes. `next` is the cursor of the page after it. Errors name the
    /// server as `shown`.
    ///
    /// # Errors
    /// [`Invalid`](workflow_flows::ErrorClass::Invalid) if the list is too large, or a cursor comes
    /// back, which would list the same pages again.
    pub(super) fn add(
        &mut self,
        shown: &str,
        page: impl ExactSizeIterator<Item = Described>,
        bytes: usize,
        next: Option<&str>,
    ) -> Result<(), ToolError> {
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let tools = self.tools.len() + page.len();
        let is_more = usize::from(next.is_some());
        for (what, count, most) in [
            ("tools", tools, MOST_TOOLS),
            ("pages of tools", self.pages + is_more, MOST_PAGES),
            ("bytes of tools", self.bytes, MOST_BYTES),
        ] {
            if count > most {
                return Err(invalid(format!(
                    "{shown} lists more than {most} {what}, the limit; let it list fewer, or name its tools with Mcp::tool"
                )));
            }
        }
        if let Some(next) = next
            && !self.cursors.insert(next.to_owned())
        {
            return Err(invalid(format!(
                "{shown} lists its tools without an end: a cursor came back; mend it, or name its tools with Mcp::tool"
            )));
        }
        self.tools.extend(page);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(tools: usize) -> impl ExactSizeIterator<Item = Described> {
        (0..tools).map(|at| Described {
            name: at.to_string(),
            description: String::new(),
            input_schema: Value::Bool(true),
            output_schema: None,
        })
    }

    /// Adds pages that have no end, and returns the error and the number of pages before it.
    fn endless(tools: usize, bytes: usize, cursor: impl Fn(usize) -> String) -> (usize, String) {
        let mut listing = Listing::default();
        for at in 0.. {
            if let Err(error) = listing.add("s", page(tools), bytes, Some(&cursor(at))) {
                assert!(listing.tools.len() <= MOST_TOOLS, "{error}");
                return (at, error.message);
            }
        }
        unreachable!("an endless list has an error")
    }

    #[test]
    fn an_endless_list_is_refused() {
        let by_number = |at: usize| at.to_string();
        for (tools, bytes, pages, message) in [
            (0, 10, 99, "more than 100 pages of tools"),
            (1_000, 10, 5, "more than 5000 tools"),
            (1, 1024 * 1024, 16, "more than 16777216 bytes of tools"),
        ] {
            let (at, error) = endless(tools, bytes, by_number);
            assert!(at == pages && error.contains(message), "{at}: {error}");
        }
        let (at, error) = endless(1, 10, |at| (at % 3).to_string());
        assert!(at == 3 && error.contains("a cursor came back"), "{at}: {error}");
    }

    #[test]
    fn a_list_at_its_bounds_is_taken() {
        let mut listing = Listing::default();
        for at in 1..MOST_PAGES {
            listing.add("s", page(50), 10, Some(&at.to_string())).unwrap();
        }
        listing.add("s", page(50), 10, None).unwrap();
        assert_eq!(listing.tools.len(), MOST_TOOLS);
    }
}
