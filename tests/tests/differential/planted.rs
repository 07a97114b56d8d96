//! Bugs that are planted for the cases of this binary.

#[test]
fn each_planted_bug_is_found() {
    workflow_tests::planted::assert_found_by("differential");
}
