//! Checks the syntax and returns a [`Definition`], which `expand` can turn into code as it is.

mod options;
mod signature;

use proc_macro2::Span;
use quote::ToTokens;
use std::fmt::Display;
use syn::{Error, Expr, ExprClosure, LitStr, Path, Result, Type};

use crate::lint;
use crate::parse::{Arg, Function};
use options::Options;
pub(crate) use options::{MAX_BYTES, given_twice, string_literal};

/// A workflow that has passed all checks.
pub(crate) struct Definition {
    /// The path of the SDK.
    pub(crate) krate: Path,
    pub(crate) name: LitStr,
    pub(crate) version: LitStr,
    /// `None` if the attribute has no option `retry`.
    pub(crate) retry: Option<Expr>,
    /// `None` if the attribute has no option `queue`.
    pub(crate) queue: Option<LitStr>,
    /// `None` if the attribute has no option `gate`.
    pub(crate) gate: Option<ExprClosure>,
    /// `None` if any worker can run the workflow.
    pub(crate) state: Option<Type>,
    /// The span of the author's `Ctx`. The compiler reports there if it is not the SDK's `Ctx`.
    pub(crate) ctx_span: Span,
    /// `None` if the function takes only the context.
    pub(crate) input: Option<Type>,
    /// The return type as written, usually a `Result`.
    pub(crate) returns: Type,
    pub(crate) function: Function,
}

/// All mistakes of a workflow, with a repaired definition where possible.
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// The definition that the author probably meant, if it compiles.
    ///
    /// With it, the code that uses the workflow causes no further errors.
    pub(crate) repaired: Option<Box<Definition>>,
}

/// The mistakes found so far. They are collected, so that an author sees all of them at once.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Adds a mistake that the compiler shows under all of `tokens`.
    pub(crate) fn refuse(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// Adds a mistake that the compiler shows at `span`.
    pub(crate) fn refuse_at(&mut self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    pub(crate) fn into_error(self) -> Option<Error> {
        self.0
    }
}

/// Checks the options and the function, and reports the mistakes of both together.
pub(crate) fn check(args: Result<Vec<Arg>>, mut function: Function) -> std::result::Result<Definition, Refused> {
    let mut errors = Errors::default();
    let args = args.unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    let options = Options::check(args, &function.sig.ident, &mut errors);
    let repeated = refuse_repeated_attribute(&function, &mut errors);
    let signature = signature::check(&mut function.sig, &mut errors);
    lint::check(&function, &options.allowed).into_iter().for_each(|error| errors.push(error));

    let definition = signature.filter(|_| !repeated).map(|signature| Definition {
        krate: options.krate,
        name: options.name,
        version: options.version,
        retry: options.retry,
        queue: options.queue,
        gate: options.gate,
        state: signature.state,
        ctx_span: signature.ctx_span,
        input: signature.input,
        returns: signature.returns,
        function,
    });
    match (errors.0, definition) {
        (None, Some(definition)) => Ok(definition),
        (Some(error), definition) => Err(Refused { error, repaired: definition.map(Box::new) }),
        (None, None) => Err(missing_message()),
    }
}

/// Stops the build even if a check refuses its part and forgets to add a message.
fn missing_message() -> Refused {
    debug_assert!(false, "a check refused a workflow without a message");
    Refused {
        error: Error::new(
            Span::call_site(),
            "this function cannot be a workflow, and the macro does not know why: please report this as a bug",
        ),
        repaired: None,
    }
}

/// Refuses a second `#[workflow]`.
///
/// It would apply to the code that the first one generates, and its messages would be about that
/// code.
fn refuse_repeated_attribute(function: &Function, errors: &mut Errors) -> bool {
    let second = function.attrs.iter().find(|attr| {
        let name = attr.path().segments.last();
        name.is_some_and(|segment| segment.ident == "workflow")
    });
    if let Some(attr) = second {
        errors
            .refuse(attr, "a function takes only one `#[workflow]`: remove this one and move its options to the first");
    }
    second.is_some()
}

#[cfg(test)]
mod tests;
