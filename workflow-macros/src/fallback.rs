//! Expands a refused workflow into its errors and code that still uses its name.
//!
//! The program keeps the function. Otherwise each use of the missing name would cause one more
//! error, and an editor could not complete code in the body.

use proc_macro2::TokenStream;
use syn::Error;

use crate::expand;
use crate::model::Refused;

/// Returns the errors, and the repaired workflow or else the item as it is written.
pub(crate) fn expand(item: TokenStream, refused: &Refused) -> TokenStream {
    match &refused.repaired {
        Some(definition) => with_error(&refused.error, expand::expand(definition)),
        None => as_written(item, &refused.error),
    }
}

/// Returns the errors and the item under the attribute, which may be anything but a function.
pub(crate) fn as_written(item: TokenStream, error: &Error) -> TokenStream {
    with_error(error, item)
}

fn with_error(error: &Error, item: TokenStream) -> TokenStream {
    let mut tokens = error.to_compile_error();
    tokens.extend(item);
    tokens
}
