//! Code that the macros accept, with one module per topic, and code that they refuse (`ui/fail`).
//!
//! After a change of a message, run `TRYBUILD=overwrite cargo test -p workflow-tests --test macros`
//! and read the difference.

mod arguments;
// Public, because one of its cases checks the visibility of workflows.
pub mod attributes;
mod lint_allow;
mod lint_names;
mod lint_steps;
mod options;
mod results;
mod scopes;
mod step_errors;
mod workers;

/// Compares the messages about each file with the expected ones.
///
/// All files must fail to compile. Then `trybuild` only checks the dependencies. If one file had to
/// pass, `trybuild` would build and link all dependencies once more.
#[test]
fn refused_code_gets_the_expected_messages() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
