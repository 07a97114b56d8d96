//! A way to PostgreSQL that counts what the server answers: exact at every moment, while the server's own statistics come
//! late, and the same on every server. It costs time, so nothing is timed over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::BoxResult;

/// Counts from when it is opened. Its connections end when it is dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    /// What to connect to in the server's place.
    pub(crate) url: String,
    counts: Arc<Counts>,
    connections: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    statements: AtomicU64,
    transactions: AtomicU64,
    longest: AtomicU64,
}

/// What has been answered so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Statements, BEGIN and COMMIT included.
    pub(crate) statements: u64,
    /// Transactions, those of one statement included.
    pub(crate) transactions: u64,
    /// Statements of the longest of them.
    pub(crate) longest: u64,
}

impl Wire {
    /// Opens one to the server of this URL.
    pub(crate) async fn open(url: &str) -> BoxResult<Self> {
        let server: PgConnectOptions = url.parse()?;
        if server.get_socket().is_some() || server.get_host().starts_with('/') {
            return Err("statements are counted over TCP: give a URL with a host name, not a socket".into());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = (server.get_host().to_owned(), server.get_port());
        // Encrypted, nothing could be counted.
        let wired = server.host("127.0.0.1").port(listener.local_addr()?.port()).ssl_mode(PgSslMode::Disable);
        let counts = Arc::new(Counts::default());
        let connections = tokio::spawn(accept(listener, address, Arc::clone(&counts)));
        Ok(Self { url: wired.to_url_lossy().into(), counts, connections })
    }

    pub(crate) fn counted(&self) -> Counted {
        Counted {
            statements: self.counts.statements.load(Relaxed),
            transactions: self.counts.transactions.load(Relaxed),
            longest: self.counts.longest.load(Relaxed),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.connections.abort();
    }
}

async fn accept(listener: TcpListener, server: (String, u16), counts: Arc<Counts>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, counts) = (server.clone(), Arc::clone(&counts));
        connections.spawn(async move {
            // A connection that breaks ends on both sides, and who used it says so.
            let _ = carry(client, server, &counts).await;
        });
    }
}

async fn carry(client: TcpStream, server: (String, u16), counts: &Counts) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    tokio::select! {
        questions = tokio::io::copy(&mut from_client, &mut to_server) => questions.map(drop),
        answers = carry_answers(from_server, to_client, counts) => answers,
    }
}

async fn carry_answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counts: &Counts) -> std::io::Result<()> {
    let mut answers = Answers::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        // Counted before the client knows: what it has seen is in the counts.
        answers.take(&buffer[..length], counts);
        to.write_all(&buffer[..length]).await?;
    }
}

/// Where a connection stands in the server's messages: a letter, a length of four bytes that counts itself, a body.
#[derive(Debug, Default)]
struct Answers {
    /// What has come of the header and of the first byte of the body.
    head: Vec<u8>,
    /// What is still to come of the body.
    body: usize,
    /// Of the transaction that is open, or has one statement.
    statements: u64,
}

impl Answers {
    fn take(&mut self, mut bytes: &[u8], counts: &Counts) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.body > 0 {
                let skipped = self.body.min(bytes.len());
                self.body -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.head.push(*first);
            bytes = rest;
            if let [kind, a, b, c, d, body @ ..] = self.head.as_slice() {
                let length = (u32::from_be_bytes([*a, *b, *c, *d]) as usize).saturating_sub(4);
                if length > 0 && body.is_empty() {
                    continue;
                }
                self.body = length.saturating_sub(1);
                self.message(*kind, body.first().copied(), counts);
                self.head.clear();
            }
        }
    }

    fn message(&mut self, kind: u8, first: Option<u8>, counts: &Counts) {
        match (kind, first) {
            // CommandComplete, EmptyQueryResponse, PortalSuspended: the end of one statement, as far as it was asked for.
            (b'C' | b'I' | b's', _) => {
                self.statements += 1;
                counts.statements.fetch_add(1, Relaxed);
            }
            // ReadyForQuery, outside of a transaction.
            (b'Z', Some(b'I')) => {
                let statements = std::mem::take(&mut self.statements);
                counts.transactions.fetch_add(u64::from(statements > 0), Relaxed);
                counts.longest.fetch_max(statements, Relaxed);
            }
            _ => {}
        }
    }
}
