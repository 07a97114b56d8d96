//! A worker in a process of its own, to be killed.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use workflow_tests::until;

/// How the worker works. The argument of the program `ledger_worker`, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// The database.
    pub url: String,
    /// The schema, on PostgreSQL.
    pub schema: Option<String>,
    /// Of the ledger and the gates.
    pub directory: PathBuf,
    /// The lease in milliseconds; `None`: the default.
    pub lease: Option<u64>,
    /// Runs at once.
    pub concurrency: u32,
    /// The shortest wait that is parked, in milliseconds.
    pub linger: u64,
    /// How long running steps may go on after SIGTERM, in milliseconds.
    pub grace: u64,
    /// The limit of crashes; `None`: the default.
    pub max_crashes: Option<u32>,
    /// How long a short step takes, in milliseconds.
    pub pause: u64,
    /// Threads of the runtime.
    pub threads: usize,
    /// Starts runs instead of working, and writes each to the ledger when its start is acknowledged.
    pub starts_runs: bool,
    /// Which release of the workflows that change it has.
    #[serde(default)]
    pub release: u32,
    /// Variables of the process.
    #[serde(default)]
    pub variables: Vec<(String, String)>,
    /// Races with others instead of working, as its standard input says.
    pub races: bool,
}

/// The process. Killed when dropped.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    log: PathBuf,
}

impl WorkerProcess {
    /// Starts it. Its log goes to a file in the settings' directory.
    ///
    /// It also ends when this process does, for it reads its standard input.
    #[must_use]
    pub fn spawn(program: &Path, settings: &WorkerSettings, name: &str, failpoint: Option<&str>) -> Self {
        let log = settings.directory.join(format!("{name}.log"));
        let mut command = Command::new(program);
        command
            .arg(serde_json::to_string(settings).expect("settings are JSON"))
            .env_remove("WORKFLOW_FAILPOINT")
            .envs(settings.variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("make the log"));
        if let Some(failpoint) = failpoint {
            command.env("WORKFLOW_FAILPOINT", failpoint);
        }
        Self { child: command.spawn().expect("start a worker process"), log }
    }

    /// Writes a line to its standard input.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(format!("{line}\n").as_bytes()).expect("write to a child");
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard error.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("read the log")
    }

    /// Which worker it is, once it works.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        let log = self.log();
        log.split("worker started worker=").nth(1)?.split_whitespace().next().map(str::to_owned)
    }

    /// Waits until its log has this text.
    pub async fn says(&self, text: &str) {
        until(&format!("{:?} says {text:?}", self.log), async || self.log().contains(text).then_some(())).await;
    }

    /// Waits until it works.
    pub async fn ready(&self) {
        self.says("worker started").await;
    }

    /// Waits until it stands still.
    pub async fn stands_still(&self) {
        let stat = format!("/proc/{}/stat", self.pid());
        until("a worker process stands still", async || {
            // The state follows the name of the program, which stands in parentheses.
            let stat = std::fs::read_to_string(&stat).expect("read the state of a process");
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')).then_some(())
        })
        .await;
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("send a signal to a child");
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.child.wait().expect("wait for a child");
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "it died before: {}", self.log());
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("look at a child")
    }

    /// Waits until it has ended.
    pub async fn end(&mut self) -> ExitStatus {
        until("a worker process ends", async || self.ended()).await
    }

    /// Waits until it has died of SIGKILL.
    pub async fn end_by_kill(&mut self) {
        let status = self.end().await;
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}: {}", self.log());
    }

    /// Asks it to end, lets it go on if it stands still, and waits until it has ended as it should.
    pub async fn end_by_request(&mut self) {
        // Else the signal would end it before it knows what to do about it.
        self.ready().await;
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        let status = self.end().await;
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Asserts that its log has nothing that it must not say, whatever happens to other processes.
    ///
    /// # Panics
    /// With the log, if it has.
    pub fn assert_no_errors(&self) {
        self.assert_silent_on(&["ERROR", "panicked", "database is locked", "SQLITE_BUSY", "deadlock"]);
    }

    /// As [`WorkerProcess::assert_no_errors`], and no warnings either.
    ///
    /// # Panics
    /// With the log, if it has one.
    pub fn assert_no_warnings(&self) {
        self.assert_no_errors();
        self.assert_silent_on(&["WARN"]);
    }

    fn assert_silent_on(&self, words: &[&str]) {
        let log = self.log();
        for word in words {
            assert!(!log.contains(word), "{:?} has {word:?}:\n{log}", self.log);
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
