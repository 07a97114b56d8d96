//! What is left of a refused workflow. The program keeps the function, so that one mistake gives one message instead of
//! one for each use of a missing name, and an editor still completes and navigates in its body.

use proc_macro2::TokenStream;
use syn::Error;

use crate::expand;
use crate::model::Refused;

/// The messages, and the workflow as it was probably meant, or else the function as it is written.
pub(crate) fn expand(item: TokenStream, refused: &Refused) -> TokenStream {
    match &refused.repaired {
        Some(definition) => with_error(&refused.error, expand::expand(definition)),
        None => as_written(item, &refused.error),
    }
}

/// The messages and the item under the attribute, which may be no function at all.
pub(crate) fn as_written(item: TokenStream, error: &Error) -> TokenStream {
    with_error(error, item)
}

fn with_error(error: &Error, item: TokenStream) -> TokenStream {
    let mut tokens = error.to_compile_error();
    tokens.extend(item);
    tokens
}
