//! The program on a terminal and without one, with a reader that is gone, after an interruption,
//! and on a database that a later release has changed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use crate::common::{Shell, check};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use workflow_sdk::prelude::*;
use workflow_tests::{Database, Live, LocalWorker, until};

#[workflow]
async fn greets(ctx: &Ctx) -> Result<Option<String>> {
    ctx.signal::<String>("greeting").await
}

/// Wide enough that no cell of a table is cut.
const WIDE: u16 = 240;

/// A terminal, from both of its sides.
struct Terminal {
    screen: File,
    side: File,
}

impl Terminal {
    /// Opens a terminal with this many columns.
    fn open(width: u16) -> Self {
        let screen: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        tcsetwinsize(&screen, Winsize { ws_row: 40, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let path = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let side = File::options().read(true).write(true).open(path).unwrap();
        Self { screen: File::from(screen), side }
    }

    /// Returns the side of the program, for one of its streams.
    fn stream(&self) -> Stdio {
        Stdio::from(self.side.try_clone().unwrap())
    }

    /// Returns what was shown, after the program has ended.
    fn shown(self) -> String {
        let Self { mut screen, side } = self;
        drop(side);
        let mut shown = Vec::new();
        let mut part = [0; 4096];
        // The end of a terminal whose other side is closed is an error.
        while let Ok(read @ 1..) = screen.read(&mut part) {
            shown.extend_from_slice(&part[..read]);
        }
        String::from_utf8(shown).unwrap()
    }
}

/// Returns the command in a session of its own. The width of a table is otherwise that of the
/// terminal from which the tests are run.
fn in_a_session(inner: &Command) -> Command {
    let mut command = Command::new("setsid");
    command.arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Returns what a command shows on a wide terminal.
fn on_a_terminal(shell: &Shell, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    on_columns(shell, WIDE, arguments, environment)
}

/// Returns what a command shows on a terminal of this width.
fn on_columns(shell: &Shell, width: u16, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let terminal = Terminal::open(width);
    let mut command = in_a_session(&shell.command(arguments));
    command.env("TERM", "xterm-256color").envs(environment.iter().copied());
    let status = command.stdout(terminal.stream()).stderr(terminal.stream()).status().unwrap();
    // The command keeps its side open, too.
    drop(command);
    assert_eq!(status.code(), Some(0), "{arguments:?}");
    terminal.shown()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_terminal_gets_colors_and_they_can_be_refused() {
    let live = Live::new(Database::Sqlite).await;
    let shell = Shell::of(&live);
    shell.says(&["runs", "start", "without_code"]);
    let list = ["runs", "list"];
    let color = |arguments: &[&str], environment: &[(&str, &str)]| {
        let shown = on_a_terminal(&shell, arguments, environment);
        assert!(shown.contains("without_code"), "{shown:?}");
        shown.contains('\u{1b}')
    };
    assert!(color(&list, &[]), "a terminal shows colors");
    assert!(color(&list, &[("NO_COLOR", "")]), "an empty NO_COLOR says nothing");
    assert!(!color(&list, &[("NO_COLOR", "1")]));
    assert!(!color(&list, &[("TERM", "dumb")]));
    assert!(!color(&["runs", "list", "--color", "never"], &[]));
    assert!(color(&["runs", "list", "--color", "always"], &[("NO_COLOR", "1")]), "the option is nearer");
    assert!(!shell.says(&list).contains('\u{1b}'), "a pipe is no terminal");
    assert!(shell.says(&["runs", "list", "--color", "always"]).contains('\u{1b}'));
    live.sweep().await;
}

/// Returns a text without the sequences that color it.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// On a narrow terminal an id can be copied, and an advice can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_narrow_terminal_shows_whole_ids_and_the_whole_advice() {
    let live = Live::new(Database::Sqlite).await;
    let shell = Shell::of(&live);
    let key = "a key that is longer than its column";
    let run = shell.says(&["runs", "start", "a_workflow_with_a_long_name", "--key", key, "--in", "1h"]);
    // The doctor has an advice about it.
    shell.says(&["runs", "pause", &run]);
    let findings: serde_json::Value = serde_json::from_str(&shell.says(&["doctor", "--json"])).unwrap();
    let advice: Vec<&str> = findings.as_array().unwrap().iter().filter_map(|found| found["fix"].as_str()).collect();
    assert!(advice.iter().any(|advice| advice.len() > 40), "{advice:?}");
    let shown = plain(&on_columns(&shell, 80, &["doctor"], &[]));
    let at = shown.lines().next().unwrap().find("WHAT TO DO").unwrap();
    let parts: Vec<String> = shown.lines().skip(1).map(|line| line.chars().skip(at).collect()).collect();
    let told: Vec<&str> = parts.iter().flat_map(|part| part.split_whitespace()).collect();
    for advice in advice {
        assert!(told.join(" ").contains(advice), "{advice:?} is not in {shown}");
    }
    let environments: [&[(&str, &str)]; 3] = [&[], &[("NO_COLOR", "1")], &[("TERM", "dumb")]];
    for (width, environment) in
        [80, 120].into_iter().flat_map(|width| environments.map(|environment| (width, environment)))
    {
        let shown = plain(&on_columns(&shell, width, &["runs", "list"], environment));
        assert!(shown.contains(&run), "{width}: {shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= width.into()), "{width}: {shown}");
        assert_eq!(shown.lines().count(), 2, "a row takes one line: {shown}");
    }
    let shown = plain(&on_columns(&shell, 80, &["audit"], &[]));
    assert!(shown.contains(&format!("run:{run}")), "{shown}");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_shown_on_a_terminal_alone() {
    let live = Live::new(Database::Sqlite).await;
    let shell = Shell::of(&live);
    let working = LocalWorker::start(live.worker(()).register(greets));
    let terminate = ["runs", "terminate", "--where", "workflow:greets status:parked", "--yes"];
    for is_terminal in [false, true] {
        for _ in 0..3 {
            shell.says(&["runs", "start", "greets"]);
        }
        until("the runs wait", async || {
            let parked = shell.says(&["runs", "list", "workflow:greets status:parked", "-o", "ids"]);
            (parked.lines().count() == 3).then_some(())
        })
        .await;
        let shown = if is_terminal {
            on_a_terminal(&shell, &terminate, &[])
        } else {
            let output = shell.run(&terminate);
            check(&terminate, &output, 0, "3 of 3 runs: 3 changed", "goes on if this command ends");
            String::from_utf8(output.stderr).unwrap()
        };
        assert_eq!(shown.contains("\r\u{1b}[K3 of 3 runs"), is_terminal, "{shown:?}");
        assert_eq!(shown.contains('\u{1b}'), is_terminal, "{shown:?}");
    }
    working.stop().await;
    live.sweep().await;
}

/// The program ends quietly if its reader does, as `head` does, and nothing has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_gone_is_no_error() {
    let live = Live::new(Database::Sqlite).await;
    let shell = Shell::of(&live);
    let run = shell.says(&["runs", "start", "without_code"]);
    for arguments in [
        &["completions", "bash"][..],
        &["runs", "list"],
        &["runs", "list", "--all", "-o", "ids"],
        &["runs", "list", "-o", "jsonl"],
        &["runs", "show", &run],
        &["runs", "show", &run, "--watch"],
        &["audit", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = shell.command(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{arguments:?}");
    }
    live.sweep().await;
}

/// A child that does not outlive the test.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns `true` if the process handles this signal itself.
fn handles(pid: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal.as_raw() - 1)) != 0
}

/// Interrupts a command as the keyboard does, and checks its exit code.
async fn interrupt(child: &mut Waiting, arguments: &[&str]) {
    let pid = child.0.id();
    until("the command listens for the signal", async || handles(pid, Signal::INT).then_some(())).await;
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::INT).unwrap();
    let code = until("the command ends", async || child.0.try_wait().unwrap()).await.code();
    assert_eq!(code, Some(130), "{arguments:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interruption_has_its_exit_code_and_changes_nothing() {
    let live = Live::new(Database::Sqlite).await;
    let shell = Shell::of(&live);
    let run = shell.says(&["runs", "start", "without_code"]);
    let line = format!("{run}\n");
    for (arguments, input) in [
        (&["runs", "result", &run, "--wait", "10m"][..], ""),
        (&["runs", "list", "--watch"][..], ""),
        (&["runs", "start", "without_code", "--input", "-"][..], "42"),
        (&["runs", "cancel", "-"][..], line.as_str()),
        (&["doctor", "--after-restore", "-"][..], line.as_str()),
    ] {
        let mut command = shell.command(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Waiting(command.spawn().unwrap());
        // The input does not end.
        let mut keyboard = child.0.stdin.take().unwrap();
        keyboard.write_all(input.as_bytes()).unwrap();
        until("the command has read its input", async || {
            (rustix::io::ioctl_fionread(&keyboard).unwrap() == 0).then_some(())
        })
        .await;
        interrupt(&mut child, arguments).await;
        let mut said = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "{arguments:?}");
    }
    // At a question.
    let mut terminal = Terminal::open(WIDE);
    let cancel = ["runs", "cancel", "--where", "is:open"];
    let mut command = shell.command(&cancel);
    let command = command.stdin(terminal.stream()).stdout(Stdio::piped()).stderr(terminal.stream());
    let mut child = Waiting(command.spawn().unwrap());
    let mut asked = Vec::new();
    while !asked.ends_with(b"[y/N] ") {
        let mut part = [0; 64];
        let read = terminal.screen.read(&mut part).unwrap();
        asked.extend_from_slice(&part[..read]);
    }
    interrupt(&mut child, &cancel).await;
    assert_eq!(shell.says(&["runs", "list", "-o", "ids"]), run);
    assert!(shell.says(&["runs", "show", &run]).contains("pending"));
    live.sweep().await;
}

/// Each kind of verb refuses a database of a later release, names both versions and the way out,
/// and leaves the database as it is.
async fn a_newer_database_is_refused(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let run = shell.says(&["runs", "start", "without_code", "--input", "42"]);
    let mut raw = live.raw().await;
    let known = raw.number("SELECT max(version) FROM workflow_schema").await;
    let before = raw.number("SELECT count(*) FROM workflow_audit").await;
    raw.execute("UPDATE workflow_schema SET version = version + 1000").await;
    let found = format!("schema version {}, this program knows up to {known}; update the program", known + 1000);
    for arguments in [
        &["runs", "list"][..],
        &["runs", "show", &run],
        &["runs", "start", "without_code"],
        &["runs", "cancel", &run],
        &["runs", "delete", "--where", "status:pending", "--yes"],
        &["queues", "pause", "default", "--reason", "a test"],
        &["counts"],
        &["workers"],
        &["doctor"],
        &["audit"],
        &["prune", "--yes"],
        &["migrate"],
        &["dashboard", "--listen", "127.0.0.1:0"],
    ] {
        let output = shell.run(arguments);
        check(arguments, &output, 9, "", &found);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("postgres://") && !said.contains("42"), "{said}");
    }
    assert_eq!(raw.number("SELECT max(version) FROM workflow_schema").await, known + 1000);
    assert_eq!(raw.number("SELECT count(*) FROM workflow_audit").await, before);
    assert_eq!(raw.number("SELECT count(*) FROM workflow_runs WHERE status = 'pending'").await, 1);
    assert_eq!(raw.number("SELECT count(*) FROM workflow_queues WHERE paused_at IS NOT NULL").await, 0);
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_database_is_refused_on_sqlite() {
    a_newer_database_is_refused(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_database_is_refused_on_postgres() {
    a_newer_database_is_refused(Database::Postgres).await;
}
