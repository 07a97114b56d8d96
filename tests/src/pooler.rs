//! A pooler in front of the PostgreSQL server of the tests.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::postgres::postgres_url;

const PGBOUNCER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/pgbouncer");

/// A PgBouncer of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct Pooler {
    /// The URL of the server's database behind the pooler.
    pub url: String,
    script: Child,
}

impl Pooler {
    /// Starts a PgBouncer with this pool mode and at most this many connections to the server.
    ///
    /// # Panics
    /// Panics with one line that says what to do, if none can be started.
    #[must_use]
    pub fn start(mode: &str, connections: u32) -> Self {
        let mut script = Command::new(PGBOUNCER)
            .args([&postgres_url(), mode, &connections.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // As the script of the server.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {PGBOUNCER}: {error}"));
        let mut url = String::new();
        BufReader::new(script.stdout.take().expect("piped")).read_line(&mut url).expect("read the pooler's URL");
        let url = url.trim().to_owned();
        if url.is_empty() {
            let mut reason = String::new();
            let _ = script.stderr.take().expect("piped").read_to_string(&mut reason);
            panic!("{}", reason.trim());
        }
        Self { url, script }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // The script ends with its input.
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
