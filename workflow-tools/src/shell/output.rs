//! The output of a program, up to a bound.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads a stream and keeps its beginning. The rest is read too, so the program is not stopped.
#[derive(Debug)]
pub(super) struct Output<R> {
    /// `None`: the stream has ended.
    stream: Option<R>,
    limit: usize,
    kept: Vec<u8>,
    is_cut: bool,
}

/// The beginning of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    /// Whether the program has written more.
    pub(super) is_cut: bool,
}

impl<R: AsyncRead + Unpin> Output<R> {
    /// Keeps at most `limit` bytes.
    pub(super) fn new(stream: Option<R>, limit: usize) -> Self {
        Self { stream, limit, kept: Vec::new(), is_cut: false }
    }

    /// Reads to the end of the stream. A call that was dropped loses nothing, and the next one goes
    /// on.
    pub(super) async fn drain(&mut self) {
        let mut buffer = vec![0; 16 << 10];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => self.stream = None,
                Ok(count) => self.keep(buffer.get(..count).unwrap_or_default()),
            }
        }
    }

    fn keep(&mut self, read: &[u8]) {
        let room = self.limit.saturating_sub(self.kept.len()).min(read.len());
        self.kept.extend_from_slice(read.get(..room).unwrap_or_default());
        self.is_cut |= room < read.len();
    }

    pub(super) fn kept(self) -> Kept {
        Kept { bytes: self.kept, is_cut: self.is_cut }
    }
}

impl Kept {
    /// Adds the output to a result: `NAME` or, if it is not text, `NAME_base64`; and `NAME_cut`.
    pub(super) fn insert_into(self, result: &mut Map<String, Value>, name: &str) {
        result.insert(format!("{name}_cut"), Value::Bool(self.is_cut));
        match String::from_utf8(self.whole_characters()) {
            Ok(text) => result.insert(name.to_owned(), Value::String(text)),
            Err(error) => result.insert(format!("{name}_base64"), STANDARD.encode(error.as_bytes()).into()),
        };
    }

    /// Leaves out the beginning of a character that was cut.
    fn whole_characters(mut self) -> Vec<u8> {
        if let Err(error) = std::str::from_utf8(&self.bytes)
            && self.is_cut
            && error.error_len().is_none()
        {
            self.bytes.truncate(error.valid_up_to());
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn result(written: &[u8], limit: usize) -> Value {
        let mut output = Output::new(Some(written), limit);
        output.drain().await;
        output.drain().await;
        let mut result = Map::new();
        output.kept().insert_into(&mut result, "stdout");
        Value::Object(result)
    }

    #[tokio::test]
    async fn an_output_that_was_cut_is_marked() {
        assert_eq!(result(b"12345", 5).await, json!({ "stdout": "12345", "stdout_cut": false }));
        assert_eq!(result(b"123456", 5).await, json!({ "stdout": "12345", "stdout_cut": true }));
        assert_eq!(result("1234\u{e6}".as_bytes(), 5).await, json!({ "stdout": "1234", "stdout_cut": true }));
        assert_eq!(result(&[0xff], 5).await, json!({ "stdout_base64": "/w==", "stdout_cut": false }));
        assert_eq!(result(&[b'1', 0xc3], 5).await, json!({ "stdout_base64": "McM=", "stdout_cut": false }));
    }
}
