//! Servers beside that of the tests, each started by a script that ends with its input.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::postgres::postgres_url;

/// A server of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct ServerScript {
    /// The URL of the database behind the server.
    pub url: String,
    script: Child,
}

impl ServerScript {
    /// Starts a PgBouncer before the server of the tests, with this pool mode and at most this many
    /// connections to the server.
    ///
    /// # Panics
    /// Panics with one line that says what to do, if none can be started.
    #[must_use]
    pub fn pooler(mode: &str, connections: u32) -> Self {
        Self::start("pgbouncer", &[mode, &connections.to_string()])
    }

    /// Copies the server of the tests and starts the copy as its standby.
    ///
    /// # Panics
    /// Panics with one line that says what to do, if none can be started.
    #[must_use]
    pub fn standby() -> Self {
        Self::start("standby", &[])
    }

    fn start(name: &str, arguments: &[&str]) -> Self {
        let path = format!("{}/../scripts/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut script = Command::new(&path)
            .arg(postgres_url())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal to the group of the tests must not end the server before its tests.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {path}: {error}"));
        let mut url = String::new();
        BufReader::new(script.stdout.take().expect("piped")).read_line(&mut url).expect("read the server's URL");
        let url = url.trim().to_owned();
        if url.is_empty() {
            let mut reason = String::new();
            let _ = script.stderr.take().expect("piped").read_to_string(&mut reason);
            panic!("{}", reason.trim());
        }
        Self { url, script }
    }
}

impl Drop for ServerScript {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
