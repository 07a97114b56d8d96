//! Named points at which a test makes something go wrong, to see that what was promised there survives. Compiled to nothing
//! without the feature `failpoints`; never in a release.
//!
//! The variable `WORKFLOW_FAILPOINT` arms them: `NAME[@HIT][:ACTION]`, several separated by commas. `HIT` is the time it is reached
//! that counts: `3` the third (default: the first), `3+` the third and every later one. `ACTION` is one of [`Action`]'s words
//! (default `kill`); `delay` may say how many milliseconds: `delay=50`. What a point did is said on standard error, in a line
//! `failpoint NAME: ACTION`.
//!
//! All points of the engine, what is true there, and what they can do: `POINTS` in `failpoint/points.rs`. A name that is not
//! among them is a point of a test's own workflow.

use crate::store::DatabaseError;

#[cfg(feature = "failpoints")]
mod armed;
#[cfg(feature = "failpoints")]
mod points;

#[cfg(feature = "failpoints")]
pub use points::{Action, POINTS, Point};

/// An error that a failpoint makes: as of a database that went away.
#[cfg(feature = "failpoints")]
#[derive(Debug)]
pub struct Fault(&'static str);

/// There are none without the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[derive(Debug)]
pub enum Fault {}

// What is returned at each point takes no room, and no code reads it.
#[cfg(not(feature = "failpoints"))]
const _: () = assert!(size_of::<Result<(), Fault>>() == 0);

/// A point at which nothing can be answered: it kills, stops or delays.
#[inline(always)]
pub fn failpoint(name: &'static str) {
    #[cfg(feature = "failpoints")]
    // An action that makes an error is refused when such a point is armed with it.
    drop(armed::reach(name));
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// A point that can also answer with an error: `failpoint_error("...")?`.
///
/// # Errors
/// [`Fault`], if it was armed with `error` or `lost`.
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

impl From<Fault> for DatabaseError {
    #[cfg(feature = "failpoints")]
    fn from(Fault(point): Fault) -> Self {
        let why = format!("a fault of the failpoint {point}");
        Self::new(crate::store::DatabaseErrorKind::Unreachable, "reach a failpoint", why)
    }

    #[cfg(not(feature = "failpoints"))]
    fn from(fault: Fault) -> Self {
        match fault {}
    }
}
