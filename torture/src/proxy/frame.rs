//! The frames of PostgreSQL's protocol, version 3.

/// Codes of requests before the start of a session. They stand in the field of the protocol
/// version.
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// A whole frame, including its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The type byte; 0 for frames without one.
    pub(super) kind: u8,
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    /// Returns `true` for the query `COMMIT` alone.
    pub(super) fn is_commit(&self) -> bool {
        self.kind == b'Q' && self.body().trim_ascii().eq_ignore_ascii_case(b"COMMIT")
    }

    /// Returns `true` for the server's reply to a COMMIT that succeeded.
    pub(super) fn is_commit_reply(&self) -> bool {
        self.kind == b'C' && self.body() == b"COMMIT"
    }

    /// Returns `Some` if the server waits for the next request: `Some(true)` within a transaction.
    pub(super) fn is_ready(&self) -> Option<bool> {
        (self.kind == b'Z').then(|| self.bytes.last() != Some(&b'I'))
    }

    /// Returns `true` for the client's Terminate message.
    pub(super) fn is_terminate(&self) -> bool {
        self.kind == b'X'
    }

    /// Returns `true` if the server replies with one byte instead of a frame.
    pub(super) fn asks_for_a_byte(&self) -> bool {
        self.kind == 0 && matches!(self.number(4), Some(TLS | GSS))
    }

    /// Returns the text of a frame that contains one.
    fn body(&self) -> &[u8] {
        let text = self.bytes.get(5..).unwrap_or_default();
        text.strip_suffix(b"\0").unwrap_or(text)
    }

    fn number(&self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }
}

/// The bytes of one direction, split into frames.
#[derive(Debug)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// `true` if the next frame begins with a type byte before its length.
    typed: bool,
}

impl Frames {
    /// Returns the frames of a client. Its first frames have no type byte.
    pub(super) fn of_client() -> Self {
        Self { bytes: Vec::new(), typed: false }
    }

    /// Returns the frames of a server.
    pub(super) fn of_server() -> Self {
        Self { bytes: Vec::new(), typed: true }
    }

    /// Appends bytes that were read.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes and returns the next frame, once it is whole.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let head = usize::from(self.typed);
        let length = self.bytes.get(head..head + 4)?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize + head;
        if self.bytes.len() < length {
            return None;
        }
        let rest = self.bytes.split_off(length);
        let bytes = std::mem::replace(&mut self.bytes, rest);
        let frame = Frame { kind: if self.typed { bytes[0] } else { 0 }, bytes };
        self.typed |= !frame.asks_for_a_byte();
        Some(frame)
    }

    /// Removes and returns a single byte that is not part of a frame.
    pub(super) fn next_byte(&mut self) -> Option<u8> {
        (!self.bytes.is_empty()).then(|| self.bytes.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], length.as_slice(), body].concat()
    }

    #[test]
    fn bytes_become_frames_however_they_are_split() {
        let mut startup = 8_u32.to_be_bytes().to_vec();
        startup.extend(196_608_u32.to_be_bytes());
        let mut tls = 8_u32.to_be_bytes().to_vec();
        tls.extend(TLS.to_be_bytes());
        let all = [tls.clone(), startup.clone(), frame(b'Q', b"COMMIT\0"), frame(b'X', b"")].concat();
        let mut frames = Frames::of_client();
        let mut found = Vec::new();
        for byte in all {
            frames.take(&[byte]);
            found.extend(frames.next());
        }
        let kinds: Vec<u8> = found.iter().map(|frame| frame.kind).collect();
        assert_eq!(kinds, [0, 0, b'Q', b'X']);
        assert!(found[0].asks_for_a_byte() && !found[1].asks_for_a_byte());
        assert!(found[2].is_commit() && found[3].is_terminate());
    }

    #[test]
    fn replies_of_a_server_are_recognized() {
        let mut frames = Frames::of_server();
        frames.take(
            &[frame(b'C', b"COMMIT\0"), frame(b'C', b"ROLLBACK\0"), frame(b'Z', b"I"), frame(b'Z', b"T")].concat(),
        );
        let found: Vec<Frame> = std::iter::from_fn(|| frames.next()).collect();
        assert_eq!(found.iter().map(Frame::is_commit_reply).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(found.iter().map(Frame::is_ready).collect::<Vec<_>>(), [None, None, Some(false), Some(true)]);
    }

    #[test]
    fn only_a_query_of_a_single_commit_is_a_commit() {
        let is_commit = |text: &[u8]| Frame { kind: b'Q', bytes: frame(b'Q', text) }.is_commit();
        assert!(is_commit(b"COMMIT\0") && is_commit(b" commit \0"));
        assert!(!is_commit(b"COMMIT; BEGIN\0") && !is_commit(b"SELECT 'COMMIT'\0"));
    }
}
