//! Checks that the cases of this binary find the bugs that are planted for them.

#[test]
fn each_planted_bug_is_found() {
    workflow_tests::planted::assert_found_by("conformance");
}
