//! Sees that campaigns find the bugs that are planted for them: one that finds nothing may be one that is blind.

use std::process::Command;
use std::time::{Duration, Instant};

use workflow_sdk::engine::{BUGS, PlantedBug};

use crate::Database;

/// The count of a campaign of this kind that is to find a bug.
const COUNTS: &[(&str, usize)] = &[("kill", 400), ("programs", 2000), ("zombie", 16), ("wire", 200), ("power", 5)];

/// What became of one bug.
#[derive(Clone, Debug)]
pub struct Sought {
    /// The bug.
    pub bug: &'static PlantedBug,
    /// How long it took.
    pub took: Duration,
    /// The first violation that was found; `None`: none was.
    pub violation: Option<String>,
}

/// The bugs that a campaign on this database is to find.
pub fn bugs(database: Database) -> impl Iterator<Item = &'static PlantedBug> {
    let is_for = move |bug: &&PlantedBug| {
        let kind = super::kind(bug.campaign).unwrap_or_else(|| panic!("there is no kind {}", bug.campaign));
        bug.databases.contains(&database.name()) && kind.databases.contains(&database)
    };
    BUGS.iter().filter(is_for)
}

/// Runs a campaign in which this bug is planted, as a process of its own.
///
/// # Panics
/// If the process cannot be run, or the bug was not planted.
#[must_use]
pub fn seek(bug: &'static PlantedBug, database: Database, seed: u64) -> Sought {
    let count = COUNTS.iter().find(|(kind, _)| *kind == bug.campaign).map_or(100, |(_, count)| *count);
    let begun = Instant::now();
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([bug.campaign, "--planted", bug.name, "--database", database.name()]);
    command.args(["--seed", &seed.to_string(), "--count", &count.to_string(), "--jobs", "4"]);
    let output = command.output().expect("run a campaign");
    let (report, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(log.contains(&format!("planted bug {}: ", bug.name)), "{} was not planted: {log}", bug.name);
    let first = report.lines().skip_while(|line| !line.starts_with("violations ")).nth(1);
    let violation = first.filter(|line| line.starts_with("  I-")).map(|line| line.trim().to_owned());
    Sought { bug, took: begun.elapsed(), violation }
}
