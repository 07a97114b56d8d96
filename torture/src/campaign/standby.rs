//! The second server of a pair: a standby, its promotion, and the old primary that becomes its
//! standby.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{AssertSqlSafe, Connection, Executor};

use super::cluster::{Cluster, as_owner, find_programs, free_port, make_directory, own, postmaster};

/// How long a server may take to do what it was told.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps what a standby that was away for a while needs.
const KEEP: &str = "wal_keep_size=512MB";

impl Cluster {
    /// Returns `Err` with a line that says what is missing if this machine cannot make a standby.
    ///
    /// # Errors
    /// That line.
    pub fn can_have_a_standby() -> Result<(), String> {
        let programs = find_programs()?;
        match ["pg_basebackup", "pg_rewind"].iter().find(|name| !programs.join(name).exists()) {
            Some(name) => Err(format!("no {name} in {}: install postgresql", programs.display())),
            None => Ok(()),
        }
    }

    /// Creates a server that can have a standby, and starts it. See [`Cluster::start`].
    pub(super) async fn start_primary(parent: Option<&Path>) -> Self {
        // pg_rewind needs the checksums.
        Self::start_with(parent, &["--data-checksums"], vec![KEEP.into()]).await
    }

    /// Creates a standby of this server in a directory of its own, and starts it.
    pub(super) async fn start_standby(&self, parent: Option<&Path>) -> Self {
        let directory = make_directory(parent);
        self.copy_to(directory.path());
        follow(directory.path());
        let (programs, port, settings) = (self.programs.clone(), free_port(), self.settings_of_standby());
        let postmaster = postmaster(&programs, directory.path(), port, &settings);
        let path = directory.path().to_owned();
        let mut standby = Self { directory: path, _made: Some(directory), programs, port, postmaster, settings };
        standby.ready().await;
        standby
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Lets every commit wait for the standby from now on. Returns once the standby has everything
    /// that was committed before.
    pub(super) async fn wait_for_standby(&self) {
        let mut connection = self.connect().await;
        for statement in ["ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"] {
            connection.execute(statement).await.expect("let commits wait for the standby");
        }
        let is_synchronous = "SELECT count(*) > 0 FROM pg_stat_replication
            WHERE application_name = 'standby' AND state = 'streaming' AND sync_state = 'sync'";
        self.until_true(is_synchronous).await;
        // The process that makes it reads the changed settings first, and passes them on.
        connection.execute("CHECKPOINT").await.expect("make a checkpoint");
        let end: String = sqlx::query_scalar("SELECT pg_current_wal_lsn()::text")
            .fetch_one(&mut connection)
            .await
            .expect("the end of the log");
        let has_all = format!(
            "SELECT count(*) > 0 FROM pg_stat_replication
            WHERE application_name = 'standby' AND flush_lsn >= '{end}'::pg_lsn"
        );
        self.until_true(&has_all).await;
        connection.close().await.expect("close a connection");
    }

    /// Kills all processes of the server, as the failure of its machine does. If only the
    /// postmaster died, the others could still commit, and pass commits on.
    pub(super) fn kill_all(&mut self) {
        // It must start no further process.
        kill_process(Pid::from_child(&self.postmaster), Signal::STOP).expect("stop the postmaster");
        for _ in 0..2 {
            for child in children_of(self.pid()) {
                // It may have ended by itself.
                let _ = kill_process(child, Signal::KILL);
            }
        }
        self.end_by(Signal::KILL);
    }

    /// Makes this standby the primary. Returns once it takes changes.
    pub(super) async fn promote(&self) {
        let mut connection = self.connect().await;
        let promoted: bool = sqlx::query_scalar("SELECT pg_promote(true, 60)")
            .fetch_one(&mut connection)
            .await
            .expect("promote the standby");
        assert!(promoted, "the standby was not promoted: {}", self.log());
        connection.close().await.expect("close a connection");
    }

    /// Starts this server, which has died, as the primary that it was. Its commits wait for no
    /// standby, so only its clients can refuse it.
    pub(super) async fn restart_as_old_primary(&mut self) {
        self.settings = vec![KEEP.into(), "synchronous_standby_names=".into()];
        self.restart().await;
    }

    /// Makes this server, which has ended, a standby of `primary`, and starts it. It takes the
    /// changes back that the primary lacks, or copies the primary if it cannot or may not. Returns
    /// `true` if it was not copied.
    pub(super) async fn rejoin(&mut self, primary: &Self, rewinds: bool) -> bool {
        let mut connection = primary.connect().await;
        // Until then the files of the primary do not show its new timeline.
        connection.execute("CHECKPOINT").await.expect("make a checkpoint");
        connection.close().await.expect("close a connection");
        let is_rewound = rewinds && self.rewind(primary);
        if !is_rewound {
            std::fs::remove_dir_all(self.directory.join("data")).expect("remove the old primary's data");
            primary.copy_to(&self.directory);
        }
        follow(&self.directory);
        self.settings = primary.settings_of_standby();
        self.restart().await;
        is_rewound
    }

    /// Returns a text that changes with the runs and the outcomes in this schema.
    pub(super) async fn contents(&self, schema: &str) -> String {
        let read = format!(
            "SELECT coalesce(md5(string_agg(r::text, '|' ORDER BY r.id)), '') || ' ' ||
                (SELECT count(*) FROM {schema}.step_attempts) FROM {schema}.workflow_runs AS r"
        );
        let mut connection = self.connect().await;
        let read: String =
            sqlx::query_scalar(AssertSqlSafe(read)).fetch_one(&mut connection).await.expect("read the old primary");
        connection.close().await.expect("close a connection");
        read
    }

    fn rewind(&self, primary: &Self) -> bool {
        let mut rewind = as_owner(&self.programs.join("pg_rewind"));
        rewind.arg("--target-pgdata").arg(self.directory.join("data")).arg("--no-sync");
        rewind.arg(format!("--source-server=host=127.0.0.1 port={} user=postgres dbname=postgres", primary.port));
        output(rewind.current_dir(&self.directory)).status.success()
    }

    /// Copies the data of this server into this directory.
    fn copy_to(&self, directory: &Path) {
        let mut copy = as_owner(&self.programs.join("pg_basebackup"));
        copy.arg("--pgdata").arg(directory.join("data")).arg(format!("--port={}", self.port));
        copy.args(["--host=127.0.0.1", "--username=postgres", "--no-password"]);
        copy.args(["--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
        let copied = output(copy.current_dir(directory));
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
    }

    /// Returns the settings of a standby of this server.
    fn settings_of_standby(&self) -> Vec<String> {
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name=standby", self.port);
        vec![KEEP.into(), format!("primary_conninfo={primary}")]
    }

    async fn until_true(&self, read: &str) {
        let (mut connection, begun) = (self.connect().await, Instant::now());
        loop {
            let holds: bool = sqlx::query_scalar(AssertSqlSafe(read.to_owned()))
                .fetch_one(&mut connection)
                .await
                .expect("look at the standby");
            if holds {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "the standby does not follow: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Prepares a copy of a primary for its start as a standby. The primary's own settings of the pair
/// are removed, because the copy has no standby.
fn follow(directory: &Path) {
    std::fs::write(directory.join("data/postgresql.auto.conf"), "").expect("forget the primary's settings");
    let signal = directory.join("data/standby.signal");
    std::fs::write(&signal, "").expect("make a standby");
    own(&signal);
}

/// Runs a program to its end.
fn output(command: &mut Command) -> Output {
    command.output().expect("run a program of PostgreSQL")
}

/// Returns the processes that this process has started.
fn children_of(parent: u32) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").expect("list the processes").flatten();
    let children = processes.filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // After the name, which stands in parentheses, come the state and the parent.
        let (_, rest) = stat.rsplit_once(") ")?;
        let parent_of_it: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
        let pid = process.file_name().to_str()?.parse().ok()?;
        if parent_of_it == parent { Pid::from_raw(pid) } else { None }
    });
    children.collect()
}
