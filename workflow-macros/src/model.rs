//! All checks: from syntax to a [`Definition`] that `expand` can write down without a further question.

mod options;
mod signature;

use proc_macro2::Span;
use quote::ToTokens;
use std::fmt::Display;
use syn::{Error, Expr, LitStr, Path, Result, Type};

use crate::lint;
use crate::parse::{Arg, Function};
pub(crate) use options::MAX_BYTES;
use options::Options;

/// A workflow that expands.
pub(crate) struct Definition {
    /// Where the SDK is.
    pub(crate) krate: Path,
    pub(crate) name: LitStr,
    pub(crate) version: LitStr,
    /// `None` if the attribute does not say.
    pub(crate) retry: Option<Expr>,
    /// `None` if any worker can run the workflow.
    pub(crate) state: Option<Type>,
    /// Where the author wrote `Ctx`: a context that is not the SDK's is reported there.
    pub(crate) ctx_span: Span,
    /// `None` if the function takes only the context.
    pub(crate) input: Option<Type>,
    /// The return type as written, usually a `Result`.
    pub(crate) returns: Type,
    pub(crate) function: Function,
}

/// What is wrong with a workflow, all of it.
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// What the author probably meant, if it compiles: the code that uses the workflow then has nothing to complain about.
    pub(crate) repaired: Option<Box<Definition>>,
}

/// The mistakes found so far. They are collected, so that an author sees them in one go.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Records a mistake under the whole of `tokens`.
    pub(crate) fn refuse(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// Records a mistake under a single token.
    pub(crate) fn refuse_at(&mut self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    pub(crate) fn into_error(self) -> Option<Error> {
        self.0
    }
}

/// Judges options and function together.
pub(crate) fn check(args: Result<Vec<Arg>>, mut function: Function) -> std::result::Result<Definition, Refused> {
    let mut errors = Errors::default();
    let args = args.unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    let options = Options::check(args, &function.sig.ident, &mut errors);
    let repeated = repeated_attribute(&function, &mut errors);
    let signature = signature::check(&mut function.sig, &mut errors);
    lint::check(&function, &options.allowed).into_iter().for_each(|error| errors.push(error));

    let definition = signature.filter(|_| !repeated).map(|signature| Definition {
        krate: options.krate,
        name: options.name,
        version: options.version,
        retry: options.retry,
        state: signature.state,
        ctx_span: signature.ctx_span,
        input: signature.input,
        returns: signature.returns,
        function,
    });
    match (errors.0, definition) {
        (None, Some(definition)) => Ok(definition),
        (Some(error), definition) => Err(Refused { error, repaired: definition.map(Box::new) }),
        (None, None) => Err(unexplained()),
    }
}

/// A check that withholds its part must have said why. Should one forget, the build still stops.
fn unexplained() -> Refused {
    debug_assert!(false, "a check refused a workflow without a message");
    Refused { error: Error::new(Span::call_site(), "this function cannot be a workflow"), repaired: None }
}

/// The second attribute would be applied to what the first one wrote, and its messages would be about that.
fn repeated_attribute(function: &Function, errors: &mut Errors) -> bool {
    let second = function.attrs.iter().find(|attr| {
        let name = attr.path().segments.last();
        name.is_some_and(|segment| segment.ident == "workflow")
    });
    if let Some(attr) = second {
        errors.refuse(attr, "`#[workflow]` marks a function once: remove this one");
    }
    second.is_some()
}

#[cfg(test)]
mod tests;
