//! The text of events in a stream, as the HTML standard describes it (server-sent events).

use serde::Serialize;

use crate::Problem;

/// How soon a browser opens a stream again, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// A part of the text of a stream.
#[derive(Debug, Default)]
pub(crate) struct Frame(String);

impl Frame {
    /// Returns the beginning of a stream.
    pub(crate) fn first() -> Self {
        Self(format!("retry: {RETRY_MS}\n\n"))
    }

    /// Returns a comment, which keeps proxies from closing the connection.
    pub(crate) fn comment() -> Self {
        Self(": nothing new\n\n".to_owned())
    }

    /// Adds where the stream goes on, for a reader that comes back before it had an event.
    pub(crate) fn place(mut self, id: &str) -> Self {
        self.0.push_str(&format!("id: {}\n\n", one_line(id)));
        self
    }

    /// Adds an event. The id is where the stream goes on after this event.
    pub(crate) fn event(mut self, name: &str, id: &str, data: &impl Serialize) -> Self {
        self.0.push_str(&format!("event: {name}\nid: {}\n", one_line(id)));
        self.data(data)
    }

    /// Adds the event that says why the stream ends. It has no id, so a reader that comes back goes
    /// on where it was.
    pub(crate) fn problem(mut self, problem: &Problem) -> Self {
        self.0.push_str("event: problem\n");
        self.data(problem)
    }

    fn data(mut self, data: &impl Serialize) -> Self {
        // A key that is no text is the only data that cannot be written, and none has such keys.
        let data = serde_json::to_string(data).unwrap_or_default();
        for line in data.split(['\r', '\n']) {
            self.0.push_str(&format!("data: {line}\n"));
        }
        self.0.push('\n');
        self
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

fn one_line(id: &str) -> String {
    id.replace(['\r', '\n', '\0'], "")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_line_break_in_the_data_does_not_end_it() {
        let data = RawValue::from_string("{\"a\":\r\n1,\n\n\"id\": 2}".into()).unwrap();
        let text = Frame::default().event("item", "7\nevent: end", &data).into_text();
        assert_eq!(text, "event: item\nid: 7event: end\ndata: {\"a\":\ndata: \ndata: 1,\ndata: \ndata: \"id\": 2}\n\n");
    }
}
