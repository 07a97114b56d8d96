//! What `#[workflow]` accepts, each kind in a module here, and what it says about everything else (`ui/fail`).
//!
//! After a change of a message: `TRYBUILD=overwrite cargo test -p workflow-tests --test macros`, then read the difference.

mod arguments;
// Public, for one of its cases is what is reachable.
pub mod attributes;
mod lint_allow;
mod lint_names;
mod lint_steps;
mod options;
mod results;
mod scopes;
mod step_errors;
mod workers;

/// They are only checked: one case that must pass would have all dependencies built and linked once more.
#[test]
fn refused() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
