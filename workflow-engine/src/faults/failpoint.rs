//! Named points at which a test injects a failure, to see that the engine keeps its promises there.
//! They compile to nothing without the feature `failpoints`, which a release never has.
//!
//! The variable `WORKFLOW_FAILPOINT` arms points: `NAME[@HIT][:ACTION]`, several of them separated
//! by commas. `HIT` says when the point acts: `3` is the third time that it is reached, `3+` the
//! third and every later time (default: the first time). `ACTION` is one of the words of [`Action`]
//! (default: `kill`). `delay` accepts a number of milliseconds: `delay=50`. When a point acts, it
//! writes a line `failpoint NAME: ACTION` to standard error.
//!
//! `POINTS` in `failpoint/points.rs` lists every point of the engine with its state and its
//! actions. Any other name is a point of a test's own workflow.

#[cfg(feature = "failpoints")]
mod armed;
#[cfg(feature = "failpoints")]
mod points;

#[cfg(feature = "failpoints")]
pub use points::{Action, POINTS, Point};

/// An error that a failpoint injects. It looks like an unreachable database.
#[cfg(feature = "failpoints")]
#[derive(Debug)]
pub struct Fault(&'static str);

/// Has no values, because no point acts without the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[derive(Debug)]
pub enum Fault {}

// The result of each point has no size and no code reads it.
#[cfg(not(feature = "failpoints"))]
const _: () = assert!(size_of::<Result<(), Fault>>() == 0);

/// Marks a point that cannot return an error: it kills, stops or delays.
#[inline(always)]
pub fn failpoint(name: &'static str) {
    #[cfg(feature = "failpoints")]
    // Arming such a point with an action that returns an error is refused.
    drop(armed::reach(name));
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Marks a point that can also return an error: `failpoint_error("...")?`.
///
/// # Errors
/// [`Fault`] if the point is armed with `error` or `lost`.
#[inline(always)]
pub fn failpoint_error(name: &'static str) -> Result<(), Fault> {
    #[cfg(feature = "failpoints")]
    return armed::reach(name);
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = name;
        Ok(())
    }
}

#[cfg(feature = "failpoints")]
impl Fault {
    /// Returns the name of the point that injected the error.
    pub fn point(&self) -> &'static str {
        self.0
    }
}
