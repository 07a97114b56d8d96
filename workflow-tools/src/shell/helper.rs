//! The helper process: this program, started again, which limits itself and becomes the program of
//! the call.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::confinement::Confinement;
use super::limits::Limits;

/// The first argument of a helper process.
const ARGUMENT: &str = "--workflow-tools-shell-helper";

/// Whether `main` of this program has called [`shell_helper`].
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

/// Becomes the program of a call and does not return, if this process was started as the helper of
/// the tool `shell.run`.
///
/// It is the first line of the `main` of a program that runs flows with this tool. In any other
/// process it returns at once.
///
/// ```
/// // The first line of main:
/// workflow_tools::shell::shell_helper();
/// ```
pub fn shell_helper() {
    IS_PREPARED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == ARGUMENT) {
        end(arguments);
    }
}

/// Whether this program can be started as a helper.
pub(super) fn is_prepared() -> bool {
    IS_PREPARED.load(Ordering::Relaxed)
}

/// The settings that a helper applies before it becomes the program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Preparation {
    /// Begins each line of the helper. A program does not get it, so it cannot write such a line.
    pub(super) nonce: String,
    /// The process that starts the helper.
    pub(super) parent: u32,
    pub(super) confinement: Confinement,
    pub(super) limits: Limits,
}

/// Why a helper did not become the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Refusal {
    /// The kernel does not confine it.
    Confinement(String),
    /// The kernel does not limit it: the number of its error.
    Limits(i32),
    /// The kernel does not execute the program: the number of its error.
    Program(i32),
}

impl Preparation {
    /// Returns the command that starts a helper, which becomes the program with these words.
    pub(super) fn command(&self, helper: Option<&Path>, program: &Path, words: &[String]) -> io::Result<Command> {
        // This link leads to the running program even if its file has been replaced.
        let mut command = Command::new(helper.unwrap_or(Path::new("/proc/self/exe")));
        command.arg(ARGUMENT).arg(serde_json::to_string(self)?).arg(program).args(words);
        Ok(command)
    }

    /// The line by which a helper says that the program is next.
    pub(super) fn ready(&self) -> String {
        format!("{} ready\n", self.nonce)
    }

    /// Reads what the helper and the program have written: the bytes of the program, or why there
    /// was none. `None`: no helper has written it.
    pub(super) fn read<'a>(&self, written: &'a [u8]) -> Option<Result<&'a [u8], Refusal>> {
        let (begun, rest) = match written.strip_prefix(self.ready().as_bytes()) {
            Some(rest) => (true, rest),
            None => (false, written),
        };
        match rest.strip_prefix(self.nonce.as_bytes()) {
            Some(line) => serde_json::from_slice(line).ok().map(Err),
            None => begun.then_some(Ok(rest)),
        }
    }

    /// Becomes the program.
    fn become_program(&self, program: PathBuf, words: impl Iterator<Item = OsString>) -> Result<Infallible, Refusal> {
        let unlimited = |error: Errno| Refusal::Limits(error.raw_os_error());
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(unlimited)?;
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
        if parent != Some(self.parent) {
            // The parent has ended before the line above.
            return Err(unlimited(Errno::SRCH));
        }
        self.confinement.enter().map_err(|error| Refusal::Confinement(error.to_string()))?;
        let (ready, mut command) = (self.ready(), Command::new(program));
        command.args(words);
        self.limits.apply().map_err(unlimited)?;
        let written = io::stderr().write_all(ready.as_bytes());
        let error = written.err().unwrap_or_else(|| command.exec());
        Err(Refusal::Program(error.raw_os_error().unwrap_or_default()))
    }
}

/// Becomes the program, or ends this process.
#[expect(clippy::exit, reason = "a helper process has nothing to clean up")]
fn end(mut arguments: impl Iterator<Item = OsString>) -> ! {
    let preparation = arguments.next().and_then(|text| text.into_string().ok());
    let preparation: Option<Preparation> = preparation.and_then(|text| serde_json::from_str(&text).ok());
    if let (Some(preparation), Some(program)) = (preparation, arguments.next()) {
        let Err(refusal) = preparation.become_program(program.into(), arguments);
        let line = serde_json::to_string(&refusal).unwrap_or_default();
        // If the parent has gone, there is no reader.
        let _ = io::stderr().write_all(format!("{}{line}\n", preparation.nonce).as_bytes());
    }
    std::process::exit(1)
}
