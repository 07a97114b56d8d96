//! Every failpoint and every planted bug stands in its table and in the code.

use std::collections::BTreeSet;

use workflow_engine::faults::{BUGS, POINTS};

use crate::sources::all_shipped;

/// Names in the form of a failpoint's, in files that have any.
fn failpoints_in(code: &str) -> BTreeSet<String> {
    let is_name = |word: &str| word.bytes().all(|c| c.is_ascii_lowercase() || matches!(c, b'_' | b'.'));
    let literals = code.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
    let names = literals.filter(|word| is_name(word) && word.split('.').filter(|part| part.len() > 2).count() == 2);
    if code.contains("failpoint") { names.map(str::to_owned).collect() } else { BTreeSet::new() }
}

#[test]
fn every_failpoint_is_in_the_table_and_in_the_code() {
    // Chooses one of two points by how the drive ended.
    const CHOOSES: &str = "workflow-worker/drive/finish.rs";
    let mut in_code = BTreeSet::new();
    for source in all_shipped().into_iter().filter(|source| !source.path.starts_with("faults/")) {
        let text = &source.text;
        in_code.extend(failpoints_in(&source.code()));
        let calls = text.matches("failpoint(").count() + text.matches("failpoint_error(").count();
        let named = text.matches("failpoint(\"").count() + text.matches("failpoint_error(\"").count();
        let path = source.shown();
        assert!(calls == named || path == CHOOSES, "{path} names a failpoint elsewhere");
    }
    let in_table: BTreeSet<String> = POINTS.iter().map(|point| point.name.to_owned()).collect();
    assert_eq!(in_table.len(), POINTS.len(), "a name twice");
    assert_eq!(in_code, in_table, "left: in the code; right: in faults/failpoint/points.rs");
}

#[test]
fn every_planted_bug_is_in_the_table_and_in_the_code() {
    let mut in_code = BTreeSet::new();
    for source in all_shipped().iter().filter(|source| !source.path.starts_with("faults/")) {
        for call in ["planted(\"", "altered(\""] {
            let names = source.text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
            in_code.extend(names.map(str::to_owned));
        }
    }
    let in_table: BTreeSet<String> = BUGS.iter().map(|bug| bug.name.to_owned()).collect();
    assert_eq!(in_table.len(), BUGS.len(), "a name twice");
    assert_eq!(in_code, in_table, "left: in the code; right: in faults/planted/bugs.rs");
}
