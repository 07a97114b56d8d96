//! Bugs that a test switches on, to see that its checks find them. They exist only with the feature
//! `planted-bugs`, which a release never has. Without it [`planted`] is `false` at compile time,
//! and the program contains nothing of a bug.
//!
//! `WORKFLOW_PLANTED=<name>` switches a bug on for a process; [`plant`] does so from inside. `BUGS`
//! in `planted/bugs.rs` lists all bugs with what each one breaks and which check finds it.

#[cfg(feature = "planted-bugs")]
mod bugs;
#[cfg(feature = "planted-bugs")]
mod switch;

#[cfg(feature = "planted-bugs")]
pub use bugs::{BUGS, Check, PlantedBug};
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

/// Returns whether this bug is switched on.
#[inline(always)]
#[must_use]
pub fn planted(name: &'static str) -> bool {
    #[cfg(feature = "planted-bugs")]
    return switch::is_on(name);
    #[cfg(not(feature = "planted-bugs"))]
    {
        let _ = name;
        false
    }
}

/// Returns the statement. If this bug is switched on, `good` in it is replaced by `bad`.
#[inline(always)]
pub fn altered(name: &'static str, statement: &'static str, good: &str, bad: &str) -> &'static str {
    #[cfg(feature = "planted-bugs")]
    if switch::is_on(name) && statement.contains(good) {
        // Leaking is acceptable: this is the short-lived process of a test.
        return Box::leak(statement.replace(good, bad).into_boxed_str());
    }
    let _ = (name, good, bad);
    statement
}
