//! A PostgreSQL server of a campaign, with fsync on. Its postmaster is a child of this process, so
//! that it can be killed, reaped and started again: a process that is not reaped counts as alive.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, Executor, PgConnection};
use tempfile::TempDir;

use workflow_tests::postgres::PASSWORD;

const FIND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres");

/// How long sessions may take to end after their clients are gone.
pub(super) const SESSIONS_END_WITHIN: Duration = Duration::from_secs(10);

/// The server. The drop stops and removes it.
#[derive(Debug)]
pub struct Cluster {
    pub(super) directory: PathBuf,
    /// Removes the directory on drop; `None`: another value owns the directory.
    pub(super) _made: Option<TempDir>,
    pub(super) programs: PathBuf,
    pub(super) port: u16,
    pub(super) postmaster: Child,
    /// Further settings of the server, as `name=value`.
    pub(super) settings: Vec<String>,
}

impl Cluster {
    /// Creates a server and starts it.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start, with the reason.
    pub async fn start(parent: Option<&Path>) -> Self {
        Self::start_with(parent, &[], Vec::new()).await
    }

    /// Creates a server with further arguments of `initdb` and further settings, and starts it. See
    /// [`Cluster::start`].
    pub(super) async fn start_with(parent: Option<&Path>, arguments: &[&str], settings: Vec<String>) -> Self {
        let programs = find_programs().unwrap_or_else(|why| panic!("{why}"));
        let directory = make_directory(parent);
        let mut initdb = as_owner(&programs.join("initdb"));
        initdb.arg("--pgdata").arg(directory.path().join("data"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-instructions",
            "--no-sync",
        ]);
        initdb.args(arguments);
        let made = initdb.current_dir(directory.path()).output().expect("run initdb");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        let postmaster = postmaster(&programs, directory.path(), port, &settings);
        let path = directory.path().to_owned();
        let mut cluster = Self { directory: path, _made: Some(directory), programs, port, postmaster, settings };
        cluster.ready().await;
        cluster.install_amcheck().await;
        cluster
    }

    /// Installs `amcheck`, with which the checker verifies tables and indexes. Some systems have it
    /// in a separate package.
    async fn install_amcheck(&self) {
        let mut connection = self.connect().await;
        let known = "SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'amcheck'";
        match sqlx::query_scalar(known).fetch_one(&mut connection).await.expect("extensions") {
            true => drop(connection.execute("CREATE EXTENSION amcheck").await.expect("amcheck")),
            false => {
                eprintln!("tables and indexes are not verified: this PostgreSQL has no amcheck (contrib)")
            }
        }
    }

    pub(super) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url()).await.expect("connect to the cluster")
    }

    /// Waits at most this long until no session of another client is left. Returns the remaining
    /// sessions with their last statements.
    pub async fn sessions_left(&self, patience: Duration) -> Vec<String> {
        let others = "SELECT state || ': ' || left(query, 100) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let (mut connection, begun) = (self.connect().await, Instant::now());
        loop {
            let left: Vec<String> = sqlx::query_scalar(others).fetch_all(&mut connection).await.expect("sessions");
            if left.is_empty() || begun.elapsed() > patience {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts another server on the directory that a power cut has left.
    ///
    /// # Panics
    /// See [`Cluster::start`].
    pub async fn recover(&self, left: &Path) -> Self {
        // The file names a process that would not exist after a real power cut.
        let _ = std::fs::remove_file(left.join("data/postmaster.pid"));
        let (programs, port) = (self.programs.clone(), free_port());
        let settings = self.settings.clone();
        let postmaster = postmaster(&programs, left, port, &settings);
        let mut cluster = Self { directory: left.to_owned(), _made: None, programs, port, postmaster, settings };
        cluster.ready().await;
        cluster
    }

    /// Returns the directory of the server's data.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the URL of the server. The server accepts every password; the URL has one so that
    /// logs can be searched for it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the process id of the postmaster.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.postmaster.id()
    }

    /// Sends the postmaster a signal: KILL, or QUIT for an immediate stop. Waits for its end.
    pub fn end_by(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.postmaster), signal).expect("send a signal to the postmaster");
        self.postmaster.wait().expect("reap the postmaster");
    }

    /// Starts the server again and waits until it accepts connections.
    pub async fn restart(&mut self) {
        let begun = Instant::now();
        loop {
            self.postmaster = postmaster(&self.programs, &self.directory, self.port, &self.settings);
            if self.answers().await {
                return;
            }
            // The old server's children may still hold its shared memory; then the new one refuses
            // to start.
            assert!(begun.elapsed() < Duration::from_secs(60), "PostgreSQL does not start again: {}", self.log());
        }
    }

    pub(super) async fn ready(&mut self) {
        assert!(self.answers().await, "PostgreSQL does not start: {}", self.log());
    }

    /// Waits until the server accepts connections. Returns `false` if it has ended instead.
    async fn answers(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if PgConnection::connect(&self.url()).await.is_ok() {
                return true;
            }
            if self.postmaster.try_wait().expect("poll the postmaster").is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    /// Returns the last lines of the server's log.
    #[must_use]
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(10).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.postmaster), Signal::QUIT);
        let _ = self.postmaster.wait();
    }
}

/// Returns the directory of PostgreSQL's programs, or a line that says why there are none.
pub(super) fn find_programs() -> Result<PathBuf, String> {
    let found = Command::new(FIND).arg("--find").output().map_err(|error| format!("{FIND}: {error}"))?;
    let (path, why) = (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    if found.status.success() { Ok(PathBuf::from(path.trim())) } else { Err(why.trim().to_owned()) }
}

/// Creates the directory of a server, in `parent` or in the directory for temporary files.
pub(super) fn make_directory(parent: Option<&Path>) -> TempDir {
    let directory = match parent {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    let directory = directory.expect("a directory for the cluster");
    own(directory.path());
    directory
}

pub(super) fn postmaster(programs: &Path, directory: &Path, port: u16, settings: &[String]) -> Child {
    let log = File::options().create(true).append(true).open(directory.join("log")).expect("open the server's log");
    let mut command = as_owner(&programs.join("postgres"));
    command.arg("-D").arg(directory.join("data")).args(["-p", &port.to_string()]);
    // A worker has up to ten connections, a round has four workers, and there are one or two rounds
    // per core.
    for setting in ["listen_addresses=127.0.0.1", "max_connections=1000", "fsync=on", "synchronous_commit=on"] {
        command.args(["-c", setting]);
    }
    for setting in settings {
        command.args(["-c", setting]);
    }
    command.arg("-c").arg(format!("unix_socket_directories={}", directory.display()));
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("start the postmaster")
}

/// Returns a command that runs as a user under which PostgreSQL runs, because it refuses to run as
/// root, like its pooler. `setpriv` replaces itself by the program, so this process is the parent.
/// The program gets SIGQUIT when this process dies; otherwise a campaign that is killed would leave
/// its server behind. It is in its own process group, because otherwise an interrupt from the
/// terminal would reach it first. A shell starts background processes with SIGQUIT ignored, and the
/// server would inherit that until it installs a handler; so the default action is restored.
pub(crate) fn as_owner(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=QUIT");
    if rustix::process::getuid().is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.args(["--", "env", "--default-signal=QUIT"]).arg(program);
    command.process_group(0);
    command
}

pub(crate) fn own(directory: &Path) {
    if rustix::process::getuid().is_root() {
        let owned = Command::new("chown").arg("postgres").arg(directory).status().expect("run chown");
        assert!(owned.success(), "there is no user postgres, and PostgreSQL does not run as root");
    }
}

/// Returns a port that no process listens on at this moment.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("the address of a listener").port()
}
