//! Bugs that a test switches on, to see that its checks find them. Only with the feature `planted-bugs`, never in a release:
//! without it [`planted`] is `false` when the program is compiled, and nothing of a bug is left in it.
//!
//! `WORKFLOW_PLANTED=<name>` switches one on for a process, [`plant`] from inside. All of them, with what each breaks and which
//! check finds it: `BUGS` in `planted/bugs.rs`.

#[cfg(feature = "planted-bugs")]
mod bugs;
#[cfg(feature = "planted-bugs")]
mod switch;

#[cfg(feature = "planted-bugs")]
pub use bugs::{BUGS, Check, PlantedBug};
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

/// Whether this bug is switched on.
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

/// The statement; with this bug switched on, one that has `bad` in the place of `good`.
#[inline(always)]
pub fn altered(name: &'static str, statement: &'static str, good: &str, bad: &str) -> &'static str {
    #[cfg(feature = "planted-bugs")]
    if switch::is_on(name) && statement.contains(good) {
        // A test's process: what it leaks, it leaks for seconds.
        return Box::leak(statement.replace(good, bad).into_boxed_str());
    }
    let _ = (name, good, bad);
    statement
}
