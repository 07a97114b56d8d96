//! Bounds the messages of a server that writes lines.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// A stream of lines that ends with an error at a line that is too long, so that an endless line
/// does not fill the memory.
#[derive(Debug)]
pub(super) struct BoundedLines<R> {
    stream: R,
    limit: usize,
    length: usize,
}

impl<R> BoundedLines<R> {
    /// Lets lines of at most `limit` bytes through.
    pub(super) fn new(stream: R, limit: usize) -> Self {
        Self { stream, limit, length: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let this = &mut *self;
        let read = buffer.filled().get(before..).unwrap_or_default();
        for part in read.split_inclusive(|byte| *byte == b'\n') {
            this.length += part.len();
            if this.length > this.limit {
                // An error comes without data.
                buffer.set_filled(before);
                return Poll::Ready(Err(io::Error::other("a message is too long")));
            }
            if part.ends_with(b"\n") {
                this.length = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_line_over_the_limit_is_an_error() {
        let mut text = String::new();
        BoundedLines::new(&b"12345\n12\n12345\n"[..], 6).read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "12345\n12\n12345\n");
        assert!(BoundedLines::new(&b"1\n1234567"[..], 6).read_to_string(&mut text).await.is_err());
        assert!(BoundedLines::new(tokio::io::repeat(b'x'), 6).read_to_string(&mut text).await.is_err());
    }
}
