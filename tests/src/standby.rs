//! A hot standby of the PostgreSQL server of the tests.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::postgres::postgres_url;

const STANDBY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/standby");

/// A standby of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct StandbyServer {
    /// The URL of the database on the standby.
    pub url: String,
    script: Child,
}

impl StandbyServer {
    /// Copies the server of the tests and starts the copy as its standby.
    ///
    /// # Panics
    /// Panics with one line that says what to do, if none can be started.
    #[must_use]
    pub fn start() -> Self {
        let mut script = Command::new(STANDBY)
            .arg(postgres_url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // As the script of the server.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {STANDBY}: {error}"));
        let mut url = String::new();
        BufReader::new(script.stdout.take().expect("piped")).read_line(&mut url).expect("read the standby's URL");
        let url = url.trim().to_owned();
        if url.is_empty() {
            let mut reason = String::new();
            let _ = script.stderr.take().expect("piped").read_to_string(&mut reason);
            panic!("{}", reason.trim());
        }
        Self { url, script }
    }
}

impl Drop for StandbyServer {
    fn drop(&mut self) {
        // The script ends with its input.
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
