//! The common sources of divergence, looked for in what an author wrote.
//!
//! It sees words, not meanings: no types, no other function, nothing behind a `use` outside of the body. So a rule speaks
//! only where it can hardly be wrong; `docs/guide/determinism.md` says what it misses.

mod body;
mod invocation;
mod map_order;
mod rule;
mod scope;
mod source;
mod uses;

#[cfg(test)]
mod clippy_tests;
#[cfg(test)]
mod tests;

use syn::{Block, Error};

use crate::parse::Function;
pub(crate) use rule::{Allowed, Rule};

/// What the rules say about the body, in the order in which it is written.
///
/// Nothing about a body that does not parse: it may be newer than this crate, and if it is wrong the compiler says so.
pub(crate) fn check(function: &Function, allowed: &Allowed) -> Vec<Error> {
    match syn::parse2::<Block>(function.body.clone()) {
        Ok(block) => body::check(&function.sig, &block, allowed),
        Err(_) => Vec::new(),
    }
}
