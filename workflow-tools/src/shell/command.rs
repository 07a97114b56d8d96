//! Starts a helper and follows the program that it becomes to its end.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command as StdCommand, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, Receiver};

use super::output::{Kept, Output};
use crate::process::{MARK, Processes};

/// How long output is read after the processes of the program were killed. Only a process that has
/// left the group and cleared its environment can hold it open.
const LINGER: Duration = Duration::from_secs(1);

/// How a program has ended, and what it has written.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

/// A program. Dropping it kills the program and the processes that it has started.
struct Started {
    /// Dropped before the child, so the group is killed while its leader's number is taken.
    processes: Option<Processes>,
    child: Child,
}

/// Runs a command to its end. The command finds its folder by the number of the descriptor
/// `folder`. `limits` are the most bytes that are kept of its output and of its errors.
///
/// # Cancel safety
/// Dropping the future kills the program and the processes that it has started.
pub(super) async fn run(
    command: StdCommand,
    folder: OwnedFd,
    input: &[u8],
    limits: (usize, usize),
) -> io::Result<Ended> {
    let (mut started, exited) = start(command, folder).await?;
    let stdin = started.child.stdin.take();
    let mut stdout = Output::new(started.child.stdout.take(), limits.0);
    let mut stderr = Output::new(started.child.stderr.take(), limits.1);
    // The input ends with the program: a process that does not read would keep it open.
    let status = tokio::select! {
        biased;
        status = started.end(exited) => status?,
        never = async {
            tokio::join!(feed(stdin, input), stdout.drain(), stderr.drain());
            std::future::pending().await
        } => never,
    };
    // A stream that is still open after this time gives what was read from it.
    let _ = tokio::time::timeout(LINGER, async { tokio::join!(stdout.drain(), stderr.drain()) }).await;
    Ok(Ended { status, stdout: stdout.kept(), stderr: stderr.kept() })
}

async fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A program may end without reading all of it.
        let _ = stdin.write_all(input).await;
    }
}

/// Starts a command on a thread that lives as long as the program: the kernel kills the program
/// when the thread that has started it ends, and so when this process ends.
async fn start(command: StdCommand, folder: OwnedFd) -> io::Result<(Started, Receiver<()>)> {
    let mark = uuid::Uuid::new_v4().to_string();
    let mut command = Command::from(command);
    command.env(MARK, &mark).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (started_sender, started) = oneshot::channel();
    let (exited_sender, exited) = oneshot::channel();
    let runtime = Handle::current();
    let live = move || {
        let _entered = runtime.enter();
        let spawned = command.spawn();
        // The child has entered its folder.
        drop(folder);
        let leader = spawned.as_ref().ok().and_then(Child::id);
        let owned = |child| Started { processes: Some(Processes::new(leader, mark)), child };
        // If the call was dropped meanwhile, the program is dropped here.
        let _ = started_sender.send(spawned.map(owned));
        wait(leader);
        let _ = exited_sender.send(());
    };
    std::thread::Builder::new().name("tool-shell".to_owned()).spawn(live)?;
    let gone = |_| io::Error::other("the thread that starts programs has ended");
    Ok((started.await.map_err(gone)??, exited))
}

/// Blocks until a process has ended, and leaves its number taken.
fn wait(leader: Option<u32>) {
    let leader = leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while leader.is_some_and(|leader| matches!(waitid(WaitId::Pid(leader), options), Err(Errno::INTR))) {}
}

impl Started {
    /// Waits for the end of the program, and kills what it has left behind.
    async fn end(&mut self, exited: Receiver<()>) -> io::Result<ExitStatus> {
        // An error says that the thread has ended, and so the program.
        let _ = exited.await;
        self.processes = None;
        self.child.wait().await
    }
}
