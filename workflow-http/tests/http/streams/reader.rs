//! A reader of a stream of events.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

const PATIENCE: Duration = Duration::from_secs(20);

/// An event of a stream.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// An open answer.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) status: u16,
    pub(crate) head: String,
    stream: TcpStream,
    text: String,
}

impl Reader {
    /// Asks by HTTP/1.0, so that the body comes as it is, up to the end of the connection.
    pub(crate) async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: text/event-stream\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut reader = Self { status: 0, head: String::new(), stream, text: String::new() };
        reader.head = reader.part("\r\n\r\n").await.expect("an answer");
        reader.status = reader.head.split(' ').nth(1).unwrap().parse().unwrap();
        reader
    }

    /// Returns the next event. `None`: the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let part = self.part("\n\n").await?;
            let field = |name: &str| {
                let values = part.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                values.collect::<Vec<_>>().join("\n")
            };
            if part.lines().any(|line| line.starts_with("event: ")) {
                let data = serde_json::from_str(&field("data")).unwrap_or_else(|error| panic!("{error}: {part}"));
                return Some(Event { name: field("event"), id: field("id"), data });
            }
        }
    }

    /// Reads until the stream has said where it goes on, which it does before the first event.
    pub(crate) async fn place(&mut self) -> String {
        let part = self.part("\n\n").await.expect("the first frame");
        assert!(part.starts_with("retry: "), "{part}");
        let part = self.part("\n\n").await.expect("the place");
        part.strip_prefix("id: ").unwrap_or_else(|| panic!("{part}")).to_owned()
    }

    /// Returns the body as a problem.
    pub(crate) async fn problem(mut self) -> Value {
        timeout(PATIENCE, self.stream.read_to_string(&mut self.text)).await.expect("the end").unwrap();
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.text))
    }

    async fn part(&mut self, end: &str) -> Option<String> {
        let mut from = 0;
        loop {
            if let Some(at) = self.text[from..].find(end).map(|at| from + at) {
                let rest = self.text.split_off(at + end.len());
                let mut part = std::mem::replace(&mut self.text, rest);
                part.truncate(at);
                return Some(part);
            }
            from = self.text.len().saturating_sub(end.len());
            let mut bytes = vec![0; 64 * 1024];
            let read = timeout(PATIENCE, self.stream.read(&mut bytes)).await.expect("something is sent");
            match read {
                Ok(1..) => self.text.push_str(std::str::from_utf8(&bytes[..read.unwrap()]).unwrap()),
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

/// Returns a number once it has not risen for a second.
pub(crate) async fn settled(mut number: impl AsyncFnMut() -> usize) -> usize {
    let mut last = number().await;
    let mut ticks = interval(Duration::from_millis(20));
    loop {
        let rises = async {
            loop {
                let now = number().await;
                if now != last {
                    return now;
                }
                ticks.tick().await;
            }
        };
        match timeout(Duration::from_secs(1), rises).await {
            Ok(now) => last = now,
            Err(_) => return last,
        }
    }
}

/// Asks again and again until the answer is yes.
pub(crate) async fn until_open(mut ask: impl AsyncFnMut() -> bool) {
    workflow_tests::until("a stream is free", async || ask().await.then_some(())).await;
}
