//! One connection through the proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::fault::Fault;
use super::frame::{Frame, Frames};
use super::path::{FrameRole, Path};

/// How a connection ends.
enum End {
    /// One side closed the connection, or a fault looks like that.
    Closed,
    Reset,
    Hole,
}

/// The state that both directions of a connection share.
struct Link {
    path: Arc<Path>,
    /// `true` while a request waits for its last reply.
    asked: AtomicBool,
    in_transaction: AtomicBool,
    /// `true` if the server will reply with one byte.
    byte_expected: AtomicBool,
    /// Held during a [`Fault::Stall`], so that both directions wait.
    stalled: tokio::sync::RwLock<()>,
}

/// Forwards a connection until it ends.
pub(super) async fn pass(path: Arc<Path>, client: TcpStream) {
    if path.is_hole() {
        return swallow(client, None).await;
    }
    // Before the target is read, so that a cut after a change of the target ends this connection.
    let mut cuts = path.cuts();
    let Ok(server) = TcpStream::connect(path.target()).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let link = Link {
        path,
        asked: false.into(),
        in_transaction: false.into(),
        byte_expected: false.into(),
        stalled: tokio::sync::RwLock::default(),
    };
    let (mut up, mut down) = (Half::new(from_client, to_server), Half::new(from_server, to_client));
    let end = tokio::select! {
        end = link.pass_requests(&mut up) => end,
        end = link.pass_answers(&mut down) => end,
        _ = cuts.changed() => End::Closed,
    };
    // Rejoins the halves of each stream, because a reset needs the whole socket.
    let (Ok(client), Ok(server)) = (up.from.reunite(down.to), down.from.reunite(up.to)) else { return };
    match end {
        End::Closed => {}
        End::Reset => drop((client.set_zero_linger(), server.set_zero_linger())),
        End::Hole => swallow(client, Some(server)).await,
    }
}

/// Reads from the client until it gives up, without replying. The server's connection, if there is
/// one, stays open, and nothing is sent on it.
async fn swallow(mut client: TcpStream, _server: Option<TcpStream>) {
    let mut ignored = [0; 4096];
    while matches!(client.read(&mut ignored).await, Ok(1..)) {}
}

impl Link {
    async fn pass_requests(&self, half: &mut Half) -> End {
        let mut frames = Frames::of_client();
        loop {
            while let Some(frame) = frames.next() {
                self.asked.store(!frame.is_terminate(), Relaxed);
                self.byte_expected.store(frame.asks_for_a_byte(), Relaxed);
                let role = if frame.is_commit() { FrameRole::Commit } else { FrameRole::Other };
                if let Err(end) = self.pass_frame(half, &frame, role).await {
                    return end;
                }
            }
            match half.read().await {
                Some(bytes) => frames.take(bytes),
                None => return End::Closed,
            }
        }
    }

    async fn pass_answers(&self, half: &mut Half) -> End {
        let mut frames = Frames::of_server();
        loop {
            if self.byte_expected.load(Relaxed)
                && let Some(byte) = frames.next_byte()
            {
                self.byte_expected.store(false, Relaxed);
                if half.to.write_all(&[byte]).await.is_err() {
                    return End::Closed;
                }
            }
            while let Some(frame) = frames.next() {
                let role = if frame.is_commit_reply() { FrameRole::CommitReply } else { FrameRole::Other };
                if let Err(end) = self.pass_frame(half, &frame, role).await {
                    return end;
                }
                if let Some(in_transaction) = frame.is_ready() {
                    self.asked.store(false, Relaxed);
                    self.in_transaction.store(in_transaction, Relaxed);
                }
            }
            match half.read().await {
                Some(bytes) => frames.take(bytes),
                None => return End::Closed,
            }
        }
    }

    /// Forwards a frame, or causes the fault that is due at it.
    async fn pass_frame(&self, half: &mut Half, frame: &Frame, role: FrameRole) -> Result<(), End> {
        drop(self.stalled.read().await);
        let in_transaction = self.in_transaction.load(Relaxed);
        let at_work = in_transaction || self.asked.load(Relaxed);
        match self.path.due(role, at_work, in_transaction) {
            Some(Fault::Close) => return Err(End::Closed),
            Some(Fault::Reset) => return Err(End::Reset),
            Some(Fault::Torn) => {
                let _ = half.to.write_all(&frame.bytes[..frame.bytes.len() / 2]).await;
                return Err(End::Reset);
            }
            Some(Fault::Hole) => return Err(End::Hole),
            Some(Fault::Stall(time)) => {
                let _stalled = self.stalled.write().await;
                tokio::time::sleep(time).await;
            }
            // The path has taken these over: they affect every frame from now on.
            Some(Fault::Slow(_) | Fault::Bytes) | None => {}
        }
        // The path may have become a hole while this frame was in flight.
        if self.path.is_hole() {
            return Err(End::Hole);
        }
        let (delay, bytewise) = self.path.pace();
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
        half.write(&frame.bytes, bytewise).await?;
        if role == FrameRole::CommitReply {
            self.path.commit_passed();
        }
        Ok(())
    }
}

/// One direction of a connection.
struct Half {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    buffer: Box<[u8]>,
}

impl Half {
    fn new(from: OwnedReadHalf, to: OwnedWriteHalf) -> Self {
        Self { from, to, buffer: vec![0; 65_536].into() }
    }

    async fn read(&mut self) -> Option<&[u8]> {
        match self.from.read(&mut self.buffer).await {
            Ok(length @ 1..) => Some(&self.buffer[..length]),
            Ok(0) | Err(_) => None,
        }
    }

    async fn write(&mut self, bytes: &[u8], bytewise: bool) -> Result<(), End> {
        let piece = if bytewise { 1 } else { bytes.len() };
        for piece in bytes.chunks(piece) {
            self.to.write_all(piece).await.map_err(|_| End::Closed)?;
        }
        Ok(())
    }
}
