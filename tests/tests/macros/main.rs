//! Code that the macros accept, with one module per topic. What they refuse stands in
//! `workflow-macros/ui/fail`.

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
