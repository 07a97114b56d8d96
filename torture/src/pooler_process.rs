//! A PgBouncer whose process a campaign can kill, stop and start again.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::net::TcpStream;

use workflow_tests::postgres::PASSWORD;

use crate::campaign::{as_owner, free_port, own};

/// Where Debian puts the program, which is not on every user's path.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A pooler before a server. The drop ends it.
#[derive(Debug)]
pub struct PoolerProcess {
    directory: TempDir,
    port: u16,
    url: String,
    process: Child,
}

impl PoolerProcess {
    /// Returns `Err` with a line that says what is missing if this machine has no PgBouncer.
    ///
    /// # Errors
    /// That line.
    pub fn available() -> Result<(), String> {
        if Path::new(PROGRAM).exists() { Ok(()) } else { Err(format!("no {PROGRAM}: install pgbouncer")) }
    }

    /// Starts a pooler with this pool mode before the server at this URL. Its directory is created
    /// in `parent`, or in the directory for temporary files. Apart from its size, the pool has the
    /// settings that an operator gets.
    ///
    /// # Panics
    /// If PgBouncer is not installed or does not start, with the reason.
    pub async fn start(server: &str, mode: &str, parent: Option<&Path>) -> Self {
        let directory = match parent {
            Some(parent) => tempfile::tempdir_in(parent),
            None => tempfile::tempdir(),
        };
        let directory = directory.expect("a directory for the pooler");
        let server: PgConnectOptions = server.parse().expect("the URL of a server");
        let (host, user) = (server.get_host(), server.get_username());
        let database = server.get_database().unwrap_or(user);
        let port = free_port();
        let settings = format!(
            "[databases]\n* = host={host} port={} user={user}\n\
            [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
            pool_mode = {mode}\ndefault_pool_size = 100\nlogfile = {}\n",
            server.get_port(),
            directory.path().join("log").display(),
        );
        std::fs::write(directory.path().join("ini"), settings).expect("write the pooler's settings");
        own(directory.path());
        let process = spawn(directory.path());
        let url = format!("postgres://{user}:{PASSWORD}@127.0.0.1:{port}/{database}");
        let mut pooler = Self { directory, port, url, process };
        pooler.accepts().await;
        pooler
    }

    /// Returns the URL of the server's database behind the pooler.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process.wait().expect("reap the pooler");
    }

    /// Starts the process again, at the port of the one that was killed, and waits until it accepts
    /// connections.
    ///
    /// # Panics
    /// If it does not start, with its log.
    pub async fn restart(&mut self) {
        self.process = spawn(self.directory.path());
        self.accepts().await;
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("send a signal to the pooler");
    }

    async fn accepts(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            let has_ended = self.process.try_wait().expect("poll the pooler").is_some();
            assert!(
                !has_ended && begun.elapsed() < Duration::from_secs(60),
                "PgBouncer does not start: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for PoolerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// PgBouncer refuses to run as root.
fn spawn(directory: &Path) -> Child {
    let mut command: Command = as_owner(Path::new(PROGRAM));
    command.arg("--quiet").arg(directory.join("ini")).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("start PgBouncer")
}
