//! Finds common sources of divergence in the body of a workflow.
//!
//! The lint sees words, not meanings. It knows no types, no other function, and no `use` outside of
//! the body. So a rule refuses code only if it can hardly be wrong. `docs/guide/determinism.md`
//! says what the rules miss.

mod body;
mod closures;
mod disallowed_functions;
mod hash_types;
mod macro_input;
mod map_order;
mod repeated_name;
mod rule;
mod scope;
mod syntax;

#[cfg(test)]
mod clippy_tests;
#[cfg(test)]
mod tests;

use syn::{Block, Error};

use crate::parse::Function;
pub(crate) use rule::{Allowed, Rule};

/// Returns the errors that the rules find in the body, in the order of the code. Those of
/// `repeated_name` come last.
///
/// A body that does not parse has no errors here. Its syntax may be newer than this crate, and if
/// it is wrong, the compiler reports it.
pub(crate) fn check(function: &Function, allowed: &Allowed) -> Vec<Error> {
    match syn::parse2::<Block>(function.body.clone()) {
        Ok(block) => {
            let mut errors = body::check(&function.sig, &block, allowed);
            if !allowed.contains(Rule::RepeatedName) {
                errors.extend(repeated_name::check(&function.sig, &block));
            }
            errors
        }
        Err(_) => Vec::new(),
    }
}
