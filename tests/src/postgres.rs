//! The PostgreSQL server of the tests.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The password in the URL, unless that has one.
pub const PASSWORD: &str = "p4ssword-of-a-secret";

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres");

/// Returns the URL of the server: `WORKFLOW_TEST_POSTGRES`, or that of a throw-away cluster,
/// started once per process.
///
/// The URL has a password, which a server that trusts does not ask for: no log may show it (see
/// [`crate::log_secrets`]).
///
/// The cluster ends when its standard input ends. Only this process holds the other end, so the
/// cluster ends with this process, however that ends.
///
/// # Panics
/// Panics with one line that says what to do, if there is no server and none can be started.
pub fn postgres_url() -> String {
    static GIVEN: OnceLock<Option<String>> = OnceLock::new();
    static STARTED: OnceLock<Cluster> = OnceLock::new();
    let url = match GIVEN.get_or_init(|| std::env::var("WORKFLOW_TEST_POSTGRES").ok().filter(|url| !url.is_empty())) {
        Some(url) => url.clone(),
        None => STARTED.get_or_init(Cluster::start).url.clone(),
    };
    match url.split_once('@') {
        Some((user, server)) if user.matches(':').count() == 1 => format!("{user}:{PASSWORD}@{server}"),
        _ => url,
    }
}

struct Cluster {
    url: String,
    /// Holds the pipe open. It is never waited for, because a static is not dropped.
    _script: Child,
}

impl Cluster {
    fn start() -> Self {
        let mut script = Command::new(CLUSTER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A process group of its own keeps the terminal's interrupt from ending it before it
            // has removed the cluster.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot run {CLUSTER}: {error}; set WORKFLOW_TEST_POSTGRES to a server's URL")
            });
        let mut url = String::new();
        BufReader::new(script.stdout.take().expect("piped")).read_line(&mut url).expect("read the cluster's URL");
        let url = url.trim().to_owned();
        if url.is_empty() {
            let mut reason = String::new();
            let _ = script.stderr.take().expect("piped").read_to_string(&mut reason);
            panic!("{}", reason.trim());
        }
        Self { url, _script: script }
    }
}
