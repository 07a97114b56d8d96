//! Code that the macros refuse, each file of `fail` with the message that its author sees.
//!
//! After a change of a message, run
//! `TRYBUILD=overwrite cargo test -p workflow-macros-ui` and read the difference.

/// Compares the messages about each file with the expected ones.
///
/// `trybuild` checks all dependencies of this crate once more, in a directory of its own. So the
/// test has a crate of its own, where the SDK has no database. It does not stand in the crate of the
/// macros: for the tests of a procedural macro, cargo builds the SDK and the databases a second time.
/// All files must fail to compile: if one had to pass, the dependencies would be built and linked,
/// too.
#[test]
fn refused_code_gets_the_expected_messages() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
