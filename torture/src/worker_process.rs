//! A worker in a process of its own, which a test can kill.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use workflow_tests::until;

/// The settings of the worker: the argument of the program `ledger_worker`, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// The URL of the database.
    pub url: String,
    /// The schema, on PostgreSQL.
    pub schema: Option<String>,
    /// The directory of the ledger and the gates.
    pub directory: PathBuf,
    /// The lease in milliseconds; `None`: the default.
    pub lease: Option<u64>,
    /// The maximum number of concurrent runs.
    pub concurrency: u32,
    /// How long a waiting run stays in memory before it parks, in milliseconds.
    pub linger: u64,
    /// How long running steps may continue after SIGTERM, in milliseconds.
    pub grace: u64,
    /// How long a run may clean up after it was told to end, in milliseconds; `None`: the default.
    #[serde(default)]
    pub cancel_grace: Option<u64>,
    /// Lets bodies end whose lease may have ended, instead of dropping them.
    #[serde(default)]
    pub lets_bodies_end: bool,
    /// The maximum number of crashes per run; `None`: the default.
    pub max_crashes: Option<u32>,
    /// The duration of a short step, in milliseconds.
    pub pause: u64,
    /// The number of threads of the runtime.
    pub threads: usize,
    /// Starts runs instead of driving them, and writes each acknowledged start to the ledger.
    pub starts_runs: bool,
    /// The release of the workflows that change between releases.
    #[serde(default)]
    pub release: u32,
    /// Environment variables of the process.
    #[serde(default)]
    pub variables: Vec<(String, String)>,
    /// Takes part in the races that arrive on standard input, instead of driving runs.
    pub races: bool,
}

/// A worker process. The drop kills it.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    log: PathBuf,
}

impl WorkerProcess {
    /// Starts the process. Its log goes to a file in the directory of the settings.
    ///
    /// It also ends when this process ends, because it reads its standard input.
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
            .stderr(File::create(&log).expect("create the log"));
        if let Some(failpoint) = failpoint {
            command.env("WORKFLOW_FAILPOINT", failpoint);
        }
        Self { child: command.spawn().expect("start a worker process"), log }
    }

    /// Writes a line to the standard input of the process.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(format!("{line}\n").as_bytes()).expect("write to a child");
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns everything that the process has written to standard error.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("read the log")
    }

    /// Returns the id of the worker, once it has started.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        let log = self.log();
        log.split("worker started worker=").nth(1)?.split_whitespace().next().map(str::to_owned)
    }

    /// Waits until the log contains this text.
    pub async fn says(&self, text: &str) {
        until(&format!("{:?} says {text:?}", self.log), async || self.log().contains(text).then_some(())).await;
    }

    /// Waits until a line of the log contains both texts.
    pub async fn says_of(&self, subject: &str, text: &str) {
        until(&format!("{:?} says {text:?} of {subject}", self.log), async || {
            self.log().lines().any(|line| line.contains(subject) && line.contains(text)).then_some(())
        })
        .await;
    }

    /// Waits until the worker has started.
    pub async fn ready(&self) {
        self.says("worker started").await;
    }

    /// Waits until the process is stopped, as by SIGSTOP.
    pub async fn stands_still(&self) {
        let stat = format!("/proc/{}/stat", self.pid());
        until("a worker process stands still", async || {
            // The state follows the name of the program, which stands in parentheses.
            let stat = std::fs::read_to_string(&stat).expect("read the state of a process");
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')).then_some(())
        })
        .await;
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("send a signal to a child");
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.child.wait().expect("wait for a child");
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "the process died before the kill: {}", self.log());
    }

    /// Returns the exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("poll a child")
    }

    /// Waits until the process has ended.
    pub async fn end(&mut self) -> ExitStatus {
        until("a worker process ends", async || self.ended()).await
    }

    /// Waits until the process has died of SIGKILL.
    pub async fn end_by_kill(&mut self) {
        let status = self.end().await;
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}: {}", self.log());
    }

    /// Asks the process to end, continues it if it is stopped, and waits for a successful exit.
    pub async fn end_by_request(&mut self) {
        // Earlier, the signal would end the process before its handler is installed.
        self.ready().await;
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        let status = self.end().await;
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Asserts that the log contains nothing that no process may write, whatever happens to other
    /// processes.
    ///
    /// # Panics
    /// With the log, if it contains such a text.
    pub fn assert_no_errors(&self) {
        self.assert_silent_on(&["ERROR", "panicked", "database is locked", "SQLITE_BUSY", "deadlock"]);
    }

    /// Asserts that the log contains neither errors nor warnings. See
    /// [`WorkerProcess::assert_no_errors`].
    ///
    /// # Panics
    /// With the log, if it contains one.
    pub fn assert_no_warnings(&self) {
        self.assert_no_errors();
        // On a busy machine the statistics may take longer than a worker waits for them at its end.
        let is_unexpected = |line: &&str| line.contains("WARN") && !line.contains("the statistics of the last second");
        assert_eq!(self.log().lines().find(is_unexpected), None, "{:?}", self.log);
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
