//! Spans that the worker of a program exports by OTLP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// The example `orders`, which cargo builds beside the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/orders")
}

fn run(directory: &tempfile::TempDir, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
    let unset = ["WORKFLOW_DATABASE_URL", "ORDERS_DATABASE_URL", "WORKFLOW_SCHEMA", "RUST_LOG"];
    let otel = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME"];
    for name in unset.into_iter().chain(otel) {
        command.env_remove(name);
    }
    // The collector is on this machine, whatever proxy the tests run behind.
    command.env("NO_PROXY", "127.0.0.1").envs(variables.iter().copied()).output().unwrap()
}

/// A collector that takes what it is sent.
struct Collector {
    address: SocketAddr,
    taken: Receiver<(String, String)>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, taken) = channel();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut reader = BufReader::new(connection.unwrap());
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let begun = head.len();
                    reader.read_line(&mut head).unwrap();
                    let line = head[begun..].trim().to_ascii_lowercase();
                    if line.is_empty() {
                        break;
                    }
                    if let Some(text) = line.strip_prefix("content-length:") {
                        length = text.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                // The names in protocol buffers are plain text. A failure to send is that of the
                // test, which has ended.
                let _ = sender.send((head, String::from_utf8_lossy(&body).into_owned()));
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { address, taken }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the heads and the bodies of the requests of programs that have ended.
    fn taken(&self) -> (Vec<String>, String) {
        let (heads, bodies): (Vec<_>, Vec<_>) = self.taken.try_iter().unzip();
        (heads, bodies.concat())
    }
}

/// Starts a run, and has a worker with these variables and arguments end it.
fn work(directory: &tempfile::TempDir, variables: &[(&str, &str)], arguments: &[&str]) {
    let migrated = run(directory, &[], &["migrate"]);
    assert!(migrated.status.success(), "{migrated:?}");
    let started = run(directory, &[], &["runs", "start", "checkout", "--input", "7", "-o", "ids"]);
    assert!(started.status.success(), "{started:?}");
    let worked = run(directory, variables, &[&["run", "--once"][..], arguments].concat());
    assert!(worked.status.success(), "{worked:?}");
    let id = String::from_utf8(started.stdout).unwrap();
    let shown = run(directory, &[], &["runs", "show", id.trim(), "--json"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("\"succeeded\""), "{shown:?}");
}

#[test]
fn a_worker_exports_its_spans_to_the_collector_that_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::start();
    let url = collector.url();
    work(&directory, &[], &["--traces", &url]);
    let (heads, bodies) = collector.taken();
    assert!(!heads.is_empty() && heads.iter().all(|head| head.starts_with("POST /v1/traces HTTP/1.1")), "{heads:?}");
    for text in ["run checkout", "step ship", "orders"] {
        assert!(bodies.contains(text), "{text}: {bodies}");
    }
    // The log shows fewer spans than are exported.
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &url[..]), ("OTEL_SERVICE_NAME", "shop"), ("RUST_LOG", "error")];
    work(&directory, &variables, &[]);
    let (_, bodies) = collector.taken();
    assert!(bodies.contains("run checkout") && bodies.contains("shop"), "{bodies}");

    work(&directory, &[], &[]);
    assert!(collector.taken().0.is_empty(), "nothing names a collector");
}

#[test]
fn a_collector_that_is_gone_stops_no_worker() {
    let directory = tempfile::tempdir().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    work(&directory, &[], &["--traces", &format!("http://{gone}")]);
    let refused = run(&directory, &[], &["run", "--once", "--traces", "localhost:4318"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("http://localhost:4318"), "{refused:?}");
}
