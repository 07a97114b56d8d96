//! Signal names that know the type of their payload.

use std::fmt;
use std::marker::PhantomData;

/// The name of a signal, bound to the type of its payload, so that sender and receiver cannot
/// disagree. `Client::signal` sends the signal and `Ctx::signal` receives it.
pub struct Signal<T> {
    name: &'static str,
    payload: PhantomData<fn(T) -> T>,
}

impl<T> Signal<T> {
    /// Creates the name of a signal. Range: 1 to 255 bytes without control characters.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, payload: PhantomData }
    }

    /// Returns the name.
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

/// Names a signal with a payload of type `T`: a [`Signal<T>`], or a string, which fits any type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a signal that carries a `{T}`",
    note = "a `Signal<T>` carries a `T` and nothing else; a text carries anything"
)]
pub trait NamesSignal<T> {
    /// Returns the name.
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
