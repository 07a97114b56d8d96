//! What `#[workflow]` accepts, and what it says about everything else.
//!
//! After a change of a message: `TRYBUILD=overwrite cargo test -p workflow-tests --test macros`, then read the difference.

#[test]
fn accepted() {
    trybuild::TestCases::new().pass("ui/pass/*.rs");
}

#[test]
fn refused() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
