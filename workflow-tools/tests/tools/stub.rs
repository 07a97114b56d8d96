//! A server on this machine that answers as a test says, also wrongly.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The answer of the stub to a request.
pub(crate) enum Reply {
    /// Writes this and closes the connection.
    Bytes(Vec<u8>),
    /// Writes this, then more for ever.
    Endless(&'static str),
    /// Writes nothing and keeps the connection open.
    Silent,
    /// Writes this and resets the connection.
    Reset(&'static str),
}

impl Reply {
    /// An answer with this status and body.
    pub(crate) fn new(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::Bytes(
            format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}").into(),
        )
    }

    pub(crate) fn json(body: &str) -> Self {
        Self::new("200 OK", "content-type: application/json\r\n", body)
    }
}

/// A running stub, with the requests that it has read.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// Listens on 127.0.0.1.
    pub(crate) async fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", answer).await
    }

    pub(crate) async fn start_at(address: &str, answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut stream = stream;
                    let request = read(&mut stream).await;
                    seen.lock().unwrap().push(request.clone());
                    write(stream, answer(&request)).await;
                });
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads one request with its body.
async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

async fn write(mut stream: TcpStream, reply: Reply) {
    match reply {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Reply::Endless(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
        }
        Reply::Silent => {
            let _ = stream.read(&mut [0]).await;
        }
        Reply::Reset(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.flush().await;
            // Without a linger the kernel resets the connection at the drop.
            let _ = stream.set_zero_linger();
        }
    }
}
