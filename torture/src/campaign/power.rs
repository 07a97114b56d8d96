//! The kind `power`: a power cut.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use workflow_sdk::Client;

use super::disk::home;
use super::{Cluster, Part, Report, Round, RoundOptions, RoundViolation, SESSIONS_END_WITHIN};
use crate::checker::{self, Evidence};
use crate::image::Image;
use crate::ledger::{Fact, Line};
use crate::worker_process::WorkerProcess;
use workflow_tests::{Database, RawConnection};

/// A cut counts as delivered if a commit was acknowledged at most this long before it.
const LATELY: Duration = Duration::from_millis(250);

/// The invariants that must hold in a database that is opened while work is in progress.
const INVARIANTS: &[&str] = &["I-Ack", "I-One", "I-Fence", "I-NoDual", "I-Exact", "I-Replay", "I-Clean"];

/// Texts that no log may contain. An error is allowed, because the database may stand still for
/// longer than a call waits.
const FORBIDDEN: &[&str] = &["panicked", "deadlock", "does not fit"];

pub(super) async fn round(mut part: Part) -> Report {
    let count = part.count;
    let home = home(&part);
    let mebibytes = if part.plan.database == Database::Sqlite { 64 } else { 512 };
    let image = Image::make(&home.path().join("disk"), mebibytes).expect("a disk");
    let mut options = RoundOptions { workers: 2, at_once: 16, forbidden: FORBIDDEN, ..RoundOptions::default() };
    let cluster = match part.plan.database {
        Database::Sqlite => {
            options.files = Some(image.root().to_owned());
            None
        }
        _ => Some(Cluster::start(Some(image.root())).await),
    };
    part.server = cluster.as_ref().map(Cluster::url);
    let mut round = Round::begin(part, "power", options).await;
    // Syncs once, because the cluster was created without fsync, and a cut without tables proves
    // nothing. From now on only the database's own syncs count.
    image.sync().expect("sync the disk");
    for number in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(50..300))).await;
        let processes = stand_still(&round, cluster.as_ref());
        round.ledger.read();
        let lines = round.ledger.lines.clone();
        let was_at_work = acknowledged_recently(&lines);
        let cut = image.cut(&home.path().join(format!("cut-{number}"))).expect("copy the disk");
        processes.iter().for_each(|process| send(*process, Signal::CONT));
        round.report.faults += 1;
        round.report.delivered += usize::from(was_at_work);
        round.note("ledger lines compared", lines.len());
        for violation in look(&round, cluster.as_ref(), &cut, lines).await {
            let (seed, count) = (round.part.seed, round.part.count);
            round.report.violations.push(RoundViolation { violation, seed, count });
        }
        round.report.done += 1;
    }
    let plan = Arc::clone(&round.part.plan);
    let mut report = round.finish().await;
    if let Some(cluster) = &cluster {
        report.sessions(&plan, cluster.sessions_left(SESSIONS_END_WITHIN).await);
    }
    report
}

/// Returns `true` if a commit was acknowledged a moment ago. A database that has not synced this
/// commit loses it now.
fn acknowledged_recently(lines: &[Line]) -> bool {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let since = now.saturating_sub(LATELY).as_micros();
    let mut late = lines.iter().rev().take_while(|line| line.at >= since);
    late.any(|line| line.fact == Fact::Delivered || line.fact.is_acknowledgement())
}

/// Stops every process that writes to the disk, the server first, so that it starts no more
/// sessions.
fn stand_still(round: &Round, cluster: Option<&Cluster>) -> Vec<u32> {
    let mut processes: Vec<u32> = cluster.map(Cluster::pid).into_iter().collect();
    processes.iter().for_each(|process| stop(*process));
    processes.extend(processes.first().map(|postmaster| children(*postmaster)).unwrap_or_default());
    processes.extend(round.workers.iter().map(WorkerProcess::pid));
    processes.iter().for_each(|process| stop(*process));
    processes
}

/// Sends SIGSTOP and waits until the process has stopped. A process that waits for the disk stops
/// only afterwards.
fn stop(process: u32) {
    send(process, Signal::STOP);
    while stat(process).is_some_and(|(state, _)| !matches!(state, 'T' | 'Z')) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(process: u32, signal: Signal) {
    // A session of the server may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(process.cast_signed()).expect("a process id"), signal);
}

/// Returns the state and the parent of a process.
fn stat(process: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("list all processes");
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|process| stat(*process).is_some_and(|(_, its)| its == parent)).collect()
}

/// Opens the database that the cut has left, as the engine does after a restart, and compares it
/// with the ledger as it was before the cut.
async fn look(round: &Round, cluster: Option<&Cluster>, cut: &Image, lines: Vec<Line>) -> Vec<checker::Violation> {
    let recovered = match cluster {
        Some(cluster) => Some(cluster.recover(&cut.root().join(name_of(cluster.directory()))).await),
        None => None,
    };
    let url = match &recovered {
        Some(cluster) => cluster.url(),
        None => format!("sqlite://{}", cut.root().join("test.db").display()),
    };
    let mut connect = Client::connect(&url);
    if let Some(schema) = round.testbed.schema() {
        connect = connect.schema(schema);
    }
    let client = connect.await.expect("open what the power cut has left");
    let mut raw = RawConnection::open(&url, round.testbed.schema()).await;
    let mut evidence = Evidence::read(&mut raw, round.testbed.database, lines, 0).await;
    // The cut ends every process.
    evidence.dead = evidence.lines.iter().map(|line| line.pid).collect();
    drop((raw, client));
    checker::violations(&evidence).into_iter().filter(|violation| INVARIANTS.contains(&violation.invariant)).collect()
}

fn name_of(directory: &Path) -> &std::ffi::OsStr {
    directory.file_name().expect("a directory has a name")
}
