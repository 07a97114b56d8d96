//! Names of signals that know what their signals carry.

use std::fmt;
use std::marker::PhantomData;

/// The name of a signal, bound to the type of what it carries, so that sender and receiver cannot disagree.
/// Sent by [`Client::signal`](crate::Client::signal), received by [`Ctx::signal`](crate::Ctx::signal).
pub struct Signal<T> {
    name: &'static str,
    payload: PhantomData<fn(T) -> T>,
}

impl<T> Signal<T> {
    /// A signal of this name: 1 to 255 bytes without control characters.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, payload: PhantomData }
    }

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Signal<T> {}

impl<T> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.name).finish()
    }
}

/// What names a signal that carries a `T`: a [`Signal<T>`], or a text, which carries anything.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a signal that carries a `{T}`",
    note = "a `Signal<T>` carries a `T` and nothing else; a text carries anything"
)]
pub trait NamesSignal<T> {
    /// The name.
    fn signal_name(&self) -> &str;
}

impl<T> NamesSignal<T> for Signal<T> {
    fn signal_name(&self) -> &str {
        self.name
    }
}

impl<T> NamesSignal<T> for &str {
    fn signal_name(&self) -> &str {
        self
    }
}

impl<T> NamesSignal<T> for String {
    fn signal_name(&self) -> &str {
        self
    }
}
