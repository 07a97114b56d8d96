//! Checks that the cases of a test binary find the bugs that are planted for them.

use std::process::{Command, Output};

use workflow_engine::faults::{BUGS, Check, PlantedBug};

/// Runs the cases of the calling binary that the table names, each in a process of its own in which
/// its bug is planted. The binary itself shows that these cases pass without the bug.
///
/// # Panics
/// Panics if a case does not fail as the table says.
pub fn assert_found_by(name_of_binary: &str) {
    let mut children = Vec::new();
    for bug in BUGS {
        let Check::Case { binary, case, says } = bug.found_by else { continue };
        if binary != name_of_binary {
            continue;
        }
        for database in bug.databases {
            let case = format!("{}::{case}", database);
            // All at once, because some bugs are found only by a wait that ends in vain.
            children.push(std::thread::spawn(move || (bug, run(bug, &case), case, says)));
        }
    }
    assert!(!children.is_empty(), "the table names no case of {name_of_binary}");
    let ended = children.into_iter().map(|child| child.join().expect("run a case"));
    let wrong: Vec<String> = ended.filter_map(|(bug, output, case, says)| wrong(bug, &output, &case, says)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the objection, if a case did not end as a case that finds this bug must.
fn wrong(bug: &PlantedBug, output: &Output, case: &str, says: &str) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let why = match () {
        () if !text.contains("running 1 test") => "there is no such case",
        () if !text.contains(&format!("planted bug {}: ", bug.name)) => "it was not planted",
        () if output.status.success() => "it was not found",
        () if !text.contains(says) => "something else was found",
        () => return None,
    };
    Some(format!("{} in {case}: {why}: {text}", bug.name))
}

fn run(bug: &PlantedBug, case: &str) -> Output {
    let binary = std::env::current_exe().expect("the test binary");
    let mut command = Command::new(binary);
    command.args(["--exact", case, "--nocapture"]).env("WORKFLOW_PLANTED", bug.name);
    command.output().expect("run the test binary")
}
