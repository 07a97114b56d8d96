//! The planted bugs that the cases of this binary must find.

#[test]
fn each_planted_bug_is_found() {
    workflow_tests::planted::assert_found_by("kill");
}
