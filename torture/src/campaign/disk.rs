//! The kind `disk`: full disks, and files that may not grow.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::TempDir;

use super::wire::until;
use super::{Part, Report, Round, RoundOptions};
use crate::image::Image;
use crate::worker_process::WorkerProcess;

/// The size of the disk. The database of a round takes a part of it.
const MEBIBYTES: u64 = 96;

/// How long a fault waits until it hits a worker.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a worker that was hit may take to continue, once there is space.
const RECOVERY: Duration = Duration::from_secs(60);

/// How much larger than the ledger a limited file may grow, in bytes. The limit must hit the
/// database and not the ledger.
const LEDGER: u64 = 256 * 1024;

/// The log text of the executor for every failed commit.
const REFUSED: &str = "commit failed";

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let home = home(&part);
    let image = Image::make(&home.path().join("disk"), MEBIBYTES).expect("a disk");
    let options =
        RoundOptions { workers: 2, at_once: 12, files: Some(image.root().to_owned()), ..RoundOptions::default() };
    let mut round = Round::begin(part, "disk", options).await;
    round.all_started().await;
    for worker in &round.workers {
        // A worker that cannot renew its leases loses them.
        round.disturbed.insert(worker.pid());
    }
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(50..400))).await;
        round.report.faults += 1;
        let was_hit = match round.random.bool() {
            true => fill(&mut round, &image).await,
            false => limit(&mut round).await,
        };
        round.report.delivered += usize::from(was_hit);
        if !goes_on(&mut round).await {
            round.violation("I-Live", format!("a worker had not continued {RECOVERY:?} after there was space again"));
            break;
        }
        round.report.done += 1;
    }
    round.finish().await
}

/// Creates a directory for the images of the round.
pub(super) fn home(part: &Part) -> TempDir {
    let home = match &part.plan.directory {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    home.expect("a directory for the disk")
}

/// Fills the disk until a worker's commit was refused, and keeps it full a little longer.
async fn fill(round: &mut Round, image: &Image) -> bool {
    let before = refused(&round.workers);
    image.fill().expect("fill the disk");
    let was_hit = until(PATIENCE, || refused(&round.workers) > before).await;
    tokio::time::sleep(Duration::from_millis(round.random.u64(0..1500))).await;
    image.free().expect("free the disk");
    round.note("full disk", usize::from(was_hit));
    was_hit
}

/// Limits the size of one worker's files until a commit of it was refused, and a little longer.
async fn limit(round: &mut Round) -> bool {
    let victim = round.random.usize(0..round.workers.len());
    let pid = Pid::from_raw(round.workers[victim].pid().cast_signed()).expect("a process id");
    let ledger = std::fs::metadata(round.testbed.directory().join("ledger")).map_or(0, |file| file.len());
    let before = refused(&round.workers[victim..=victim]);
    let set = |current| prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: None });
    set(Some(ledger + LEDGER)).expect("limit the files of a worker");
    let was_hit = until(PATIENCE, || refused(&round.workers[victim..=victim]) > before).await;
    tokio::time::sleep(Duration::from_millis(round.random.u64(0..1000))).await;
    set(None).expect("lift the limit");
    round.note("limited file", usize::from(was_hit));
    was_hit
}

/// Waits until every worker continues. Returns `true` if each one does.
async fn goes_on(round: &mut Round) -> bool {
    let begun = Instant::now();
    let all_go_on = round.all_continue(RECOVERY).await;
    let took = if begun.elapsed() < Duration::from_secs(5) { "continued within 5 s" } else { "continued later" };
    round.note(took, usize::from(all_go_on));
    all_go_on
}

fn refused(workers: &[WorkerProcess]) -> usize {
    workers.iter().map(|worker| worker.log().matches(REFUSED).count()).sum()
}
