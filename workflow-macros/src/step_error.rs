//! `#[derive(StepError)]`: checks the type, then generates its implementation.

mod expand;
mod model;
mod options;
mod retry;

use proc_macro2::TokenStream;
use syn::DeriveInput;

/// Returns the implementation for the type, or the errors.
///
/// A type that can be repaired gets an implementation beside its errors. The code that uses the
/// type then causes no further errors.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let checked =
        syn::parse2::<DeriveInput>(item).map_err(|error| (error, None)).and_then(|input| model::check(&input));
    match checked {
        Ok(definition) => expand::expand(&definition),
        Err((error, repaired)) => {
            let mut tokens = error.to_compile_error();
            tokens.extend(repaired.as_deref().map(expand::expand));
            tokens
        }
    }
}

#[cfg(test)]
mod tests;
