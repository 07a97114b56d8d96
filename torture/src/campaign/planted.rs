//! Checks that campaigns find the bugs that are planted for them. A campaign that finds nothing may
//! be blind.

use std::process::Command;
use std::time::{Duration, Instant};

use workflow_engine::faults::{BUGS, PlantedBug};

use workflow_tests::Database;

use super::Kind;

/// The count of a campaign of this kind that searches for a bug.
const COUNTS: &[(&str, usize)] = &[
    ("kill", 400),
    ("programs", 2000),
    ("zombie", 48),
    ("power", 5),
    ("stops", 10),
    ("bombs", 4),
    ("hang", 2),
    ("events", 100),
    ("files", 10),
    ("pooler", 3),
    ("failover", 2),
    ("limits", 100),
    ("seats", 60),
    ("schedules", 250),
];

/// The result of the search for one bug.
#[derive(Clone, Debug)]
pub struct Search {
    /// The duration of the search.
    pub took: Duration,
    /// The first violation that was found; `None` if the bug was not found.
    pub violation: Option<String>,
}

/// Returns the bugs that a campaign on this database must find, each with the kind of campaign.
///
/// # Panics
/// If the table of bugs names a kind that does not exist.
pub fn bugs(database: Database) -> impl Iterator<Item = (&'static PlantedBug, &'static Kind)> {
    let on_this = move |bug: &&PlantedBug| bug.databases.contains(&database.name());
    let with_kind = |bug: &'static PlantedBug| {
        let name = bug.campaign?;
        Some((bug, super::kind(name).unwrap_or_else(|| panic!("there is no kind {name}"))))
    };
    BUGS.iter().filter(on_this).filter_map(with_kind)
}

/// Runs a campaign with this planted bug, in its own process.
///
/// # Panics
/// If the process cannot be run, or the bug was not planted.
#[must_use]
pub fn seek(bug: &PlantedBug, kind: &Kind, database: Database, seed: u64) -> Search {
    let count = COUNTS.iter().find(|(name, _)| *name == kind.name).map_or(100, |(_, count)| *count);
    let begun = Instant::now();
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([kind.name, "--planted", bug.name, "--database", database.name()]);
    command.args(["--seed", &seed.to_string(), "--count", &count.to_string(), "--jobs", "4"]);
    let output = command.output().expect("run a campaign");
    let (report, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(log.contains(&format!("planted bug {}: ", bug.name)), "{} was not planted: {log}", bug.name);
    let first = report.lines().skip_while(|line| !line.starts_with("violations ")).nth(1);
    let violation = first.filter(|line| line.starts_with("  I-")).map(|line| line.trim().to_owned());
    Search { took: begun.elapsed(), violation }
}
