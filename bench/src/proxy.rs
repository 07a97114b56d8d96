//! A proxy to PostgreSQL that counts statements and transactions by the server's answers.
//!
//! Unlike the server's own statistics, its counts are never late and do not depend on the server's
//! version. The proxy costs time, so no times are measured through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::BoxResult;

/// A proxy that counts from its opening on. Dropping it closes its connections.
#[derive(Debug)]
pub(crate) struct CountingProxy {
    /// The URL to connect to instead of the server's.
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

/// The counts so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// The number of statements, including BEGIN and COMMIT.
    pub(crate) statements: u64,
    /// The number of transactions, including those of a single statement.
    pub(crate) transactions: u64,
    /// The number of statements of the longest transaction.
    pub(crate) longest: u64,
}

impl CountingProxy {
    /// Opens a proxy to the server at `url`.
    pub(crate) async fn open(url: &str) -> BoxResult<Self> {
        let server: PgConnectOptions = url.parse()?;
        if server.get_socket().is_some() || server.get_host().starts_with('/') {
            return Err("statements are counted over TCP: use a URL with a host name, not a socket".into());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = (server.get_host().to_owned(), server.get_port());
        // On an encrypted connection nothing could be counted.
        let proxied = server.host("127.0.0.1").port(listener.local_addr()?.port()).ssl_mode(PgSslMode::Disable);
        let counts = Arc::new(Counts::default());
        let connections = tokio::spawn(accept(listener, address, Arc::clone(&counts)));
        Ok(Self { url: proxied.to_url_lossy().into(), counts, connections })
    }

    pub(crate) fn counted(&self) -> Counted {
        Counted {
            statements: self.counts.statements.load(Relaxed),
            transactions: self.counts.transactions.load(Relaxed),
            longest: self.counts.longest.load(Relaxed),
        }
    }
}

impl Drop for CountingProxy {
    fn drop(&mut self) {
        self.connections.abort();
    }
}

async fn accept(listener: TcpListener, server: (String, u16), counts: Arc<Counts>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, counts) = (server.clone(), Arc::clone(&counts));
        connections.spawn(async move {
            // An error closes both sides of the connection. The client then reports it.
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
        // Counts before the client receives the answer: the counts include all that it has seen.
        answers.take(&buffer[..length], counts);
        to.write_all(&buffer[..length]).await?;
    }
}

/// The parser of the server's messages on one connection.
///
/// A message is a letter, a length of four bytes that includes these four bytes, and a body.
#[derive(Debug, Default)]
struct Answers {
    /// The part of the header and the first byte of the body that have arrived.
    head: Vec<u8>,
    /// The number of bytes of the body that have not arrived yet.
    body: usize,
    /// The number of statements of the current transaction.
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
            // CommandComplete, EmptyQueryResponse, PortalSuspended: the end of one statement, or of
            // the part of its rows that the client requested.
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
