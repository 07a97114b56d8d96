//! `#[derive(StepError)]`: the same way as the attribute, from syntax over a definition to tokens.

mod advice;
mod expand;
mod model;
mod options;

use proc_macro2::TokenStream;
use syn::DeriveInput;

/// The implementation for a type, or what is wrong with it. A type that can be repaired is implemented all the same, so
/// that the code that uses it has nothing to complain about.
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
