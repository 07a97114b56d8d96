//! The checks on the function's signature.
//!
//! A check that knows what was meant repairs the signature after its message, so that the message stays the only one.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{FnArg, GenericArgument, GenericParam, Pat, PathArguments, PathSegment, ReturnType, Signature, Token, Type};

use super::Errors;

/// What the signature says about the workflow.
pub(super) struct Parts {
    pub(super) state: Option<Type>,
    pub(super) ctx_span: Span,
    pub(super) input: Option<Type>,
    pub(super) returns: Type,
}

/// Refuses what cannot be a workflow. `None` if no repair of it would compile.
pub(super) fn check(sig: &mut Signature, errors: &mut Errors) -> Option<Parts> {
    qualifiers(sig, errors);
    // All of them run before one of them can return: their messages belong together.
    let free = not_generic(sig, errors);
    let arguments = arguments(sig, errors);
    let returns = returns(sig, errors);

    free?;
    let (context, input) = arguments?;
    Some(Parts { state: context.state, ctx_span: context.span, input, returns: returns? })
}

fn qualifiers(sig: &mut Signature, errors: &mut Errors) {
    if let Some(token) = sig.constness.take() {
        let message = "a workflow cannot be `const`: it runs with a database behind it";
        errors.refuse(token, message);
    }
    if sig.asyncness.is_none() {
        let message = format!("a workflow is async: write `async fn {}`", sig.ident);
        errors.refuse(sig.fn_token, message);
        sig.asyncness = Some(Token![async](sig.fn_token.span));
    }
    if let Some(token) = sig.unsafety.take() {
        let message = "a workflow cannot be `unsafe`: the worker that calls it can promise nothing";
        errors.refuse(token, message);
    }
    if let Some(abi) = sig.abi.take() {
        let message = "a workflow cannot be `extern`: only a worker calls it";
        errors.refuse(abi, message);
    }
    if let Some(variadic) = sig.variadic.take() {
        let message = "a workflow cannot be variadic: it takes one input, which may be a `Vec`";
        errors.refuse(variadic, message);
    }
}

fn not_generic(sig: &Signature, errors: &mut Errors) -> Option<()> {
    let generics = &sig.generics;
    if generics.params.is_empty() {
        let clause = generics.where_clause.as_ref();
        if let Some(clause) = clause {
            errors.refuse(clause, "a workflow takes no `where` clause: its types are concrete");
        }
        return clause.is_none().then_some(());
    }
    // One message for the list: the parameters fall together, and a `where` clause with them.
    let message = if generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_))) {
        "a workflow takes no lifetime parameters: write `ctx: &Ctx<S>`, and an input that owns its data"
    } else {
        "a workflow cannot be generic: a worker finds it by its name, so write one workflow for each type"
    };
    errors.refuse(&generics.params, message);
    None
}

fn arguments(sig: &mut Signature, errors: &mut Errors) -> Option<(Context, Option<Type>)> {
    let named_lifetimes = sig.generics.lifetimes().next().is_some();
    let span = sig.paren_token.span.join();
    let mut args = sig.inputs.iter_mut();
    let (ctx, input) = match (args.next(), args.next()) {
        (None, _) => {
            errors.refuse_at(
                span,
                "a workflow takes its context: write `ctx: &Ctx`, or `ctx: &Ctx<S>` to use the worker's state `S`",
            );
            return None;
        }
        // Without the receiver there is no telling which argument was meant as what.
        (Some(FnArg::Receiver(receiver)), _) => {
            errors.refuse(
                receiver,
                "a workflow is a free function without `self`: what it needs is in `ctx.state()` and in its input",
            );
            return None;
        }
        (Some(FnArg::Typed(ctx)), input) => (ctx, input),
    };

    // Where the context should be is something else, so nobody knows what the other arguments are meant to be.
    let context = context(&mut ctx.ty, named_lifetimes, errors)?;
    let plain_name = plain_name(&ctx.pat, errors);
    let input = match input {
        Some(FnArg::Typed(input)) => owned(&input.ty, errors).map(|()| Some((*input.ty).clone())),
        // The parser lets `self` stand only in front.
        Some(FnArg::Receiver(_)) | None => Some(None),
    };
    let mut one_input = Some(());
    for extra in args {
        errors.refuse(
            extra,
            "a workflow takes one input after its context: make a struct or a tuple of it, such as `(id, count): (u64, u32)`",
        );
        one_input = None;
    }

    plain_name?;
    one_input?;
    Some((context, input?))
}

/// What the first argument says.
struct Context {
    state: Option<Type>,
    span: Span,
}

fn context(ty: &mut Type, named_lifetimes: bool, errors: &mut Errors) -> Option<Context> {
    let context = {
        let path = match peel(ty) {
            Type::Reference(reference) => peel(&reference.elem),
            other => other,
        };
        let Some(segment) = ctx_segment(path) else {
            errors.refuse(
                &*ty,
                "the first argument of a workflow is its context: write `ctx: &Ctx`, or `ctx: &Ctx<S>` to use the worker's state `S`",
            );
            return None;
        };
        Context { state: state(segment), span: segment.ident.span() }
    };

    let Type::Reference(reference) = peel_mut(ty) else {
        errors.refuse(&*ty, "a workflow borrows its context: write `&` before it, as in `ctx: &Ctx<S>`");
        let path = peel(ty);
        *ty = syn::parse_quote!(&#path);
        return Some(context);
    };
    if let Some(token) = reference.mutability.take() {
        let message = "a workflow shares its context with its concurrent branches: write `&Ctx<S>` without `mut`";
        errors.refuse(token, message);
    }
    // A lifetime that the function declares is refused where it is declared.
    if let Some(lifetime) = reference.lifetime.take_if(|lifetime| lifetime.ident != "_")
        && !named_lifetimes
    {
        let message = "a workflow borrows its context for one run: write `&Ctx<S>` without a lifetime";
        errors.refuse(lifetime, message);
    }
    Some(context)
}

/// The last segment decides: a path may be `Ctx`, `workflow_sdk::Ctx` or anything a re-export makes of it.
fn ctx_segment(ty: &Type) -> Option<&PathSegment> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    (path.qself.is_none() && segment.ident == "Ctx").then_some(segment)
}

/// The state that `Ctx<S>` names. `None` for `Ctx` and `Ctx<()>`, which any worker can provide.
///
/// Too many arguments are none of our business: the compiler sees them too, and a message from here would be the second.
fn state(segment: &PathSegment) -> Option<Type> {
    let PathArguments::AngleBracketed(list) = &segment.arguments else {
        return None;
    };
    list.args.iter().find_map(|arg| match arg {
        GenericArgument::Type(ty) if !is_unit(ty) => Some(ty.clone()),
        _ => None,
    })
}

fn is_unit(ty: &Type) -> bool {
    matches!(peel(ty), Type::Tuple(tuple) if tuple.elems.is_empty())
}

fn plain_name(pat: &Pat, errors: &mut Errors) -> Option<()> {
    match pat {
        Pat::Wild(_) => Some(()),
        Pat::Ident(name) if name.subpat.is_none() => Some(()),
        other => {
            errors.refuse(other, "the context of a workflow has a plain name, as in `ctx: &Ctx<S>`");
            None
        }
    }
}

fn owned(ty: &Type, errors: &mut Errors) -> Option<()> {
    if let Type::Reference(reference) = peel(ty) {
        errors.refuse(
            reference,
            "the input of a workflow is stored with the run, so it owns its data: take `String` for `&str`, `Vec<T>` for `&[T]`, `T` for `&T`",
        );
        return None;
    }
    concrete(
        ty,
        "the input of a workflow has a concrete type: workers read it back from the database, so name it instead of `impl Trait`",
        errors,
    )
}

fn returns(sig: &Signature, errors: &mut Errors) -> Option<Type> {
    const NO_RESULT: &str =
        "a workflow returns a `Result`: write `-> Result<T>`, or `-> Result<()>` if it yields nothing";
    match &sig.output {
        ReturnType::Default => {
            errors.refuse_at(sig.paren_token.span.close(), NO_RESULT);
            None
        }
        ReturnType::Type(_, ty) => {
            if is_unit(ty) {
                errors.refuse(ty, NO_RESULT);
                return None;
            }
            concrete(
                ty,
                "the output of a workflow has a concrete type: clients read it back from the database, so write `Result<T>` instead of `impl Trait`",
                errors,
            )?;
            Some((**ty).clone())
        }
    }
}

/// Looks at the tokens, because `impl Trait` may stand at any depth of a type.
fn concrete(ty: &Type, message: &str, errors: &mut Errors) -> Option<()> {
    let span = find_impl(ty.to_token_stream());
    if let Some(span) = span {
        errors.refuse_at(span, message);
    }
    span.is_none().then_some(())
}

fn find_impl(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(word) if word == "impl" => Some(word.span()),
        TokenTree::Group(group) => find_impl(group.stream()),
        _ => None,
    })
}

/// A type that went through a `macro_rules!` fragment arrives in an invisible group.
fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        other => other,
    }
}

fn peel_mut(ty: &mut Type) -> &mut Type {
    match ty {
        Type::Group(group) => peel_mut(&mut group.elem),
        Type::Paren(paren) => peel_mut(&mut paren.elem),
        other => other,
    }
}
