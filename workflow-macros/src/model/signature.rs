//! Checks the function's signature.
//!
//! A check that knows what the author meant repairs the signature after it adds its message. The
//! mistake then causes no further messages.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{FnArg, GenericArgument, GenericParam, Pat, PathArguments, PathSegment, ReturnType, Signature, Token, Type};

use super::Errors;

/// The parts of a workflow's definition that its signature contains.
pub(super) struct Parts {
    pub(super) state: Option<Type>,
    pub(super) ctx_span: Span,
    pub(super) input: Option<Type>,
    pub(super) returns: Type,
}

/// Refuses a signature that cannot be a workflow's.
///
/// Returns `None` if no repaired signature would compile.
pub(super) fn check(sig: &mut Signature, errors: &mut Errors) -> Option<Parts> {
    repair_qualifiers(sig, errors);
    // All checks run before the first `?`, so that an author sees all messages at once.
    let not_generic = refuse_generics(sig, errors);
    let arguments = check_arguments(sig, errors);
    let returns = check_return_type(sig, errors);

    not_generic?;
    let (context, input) = arguments?;
    Some(Parts { state: context.state, ctx_span: context.span, input, returns: returns? })
}

fn repair_qualifiers(sig: &mut Signature, errors: &mut Errors) {
    if let Some(token) = sig.constness.take() {
        let message = "a workflow cannot be `const`, because only a worker can run it: remove `const`";
        errors.refuse(token, message);
    }
    if sig.asyncness.is_none() {
        let message = format!("a workflow must be async: write `async fn {}`", sig.ident);
        errors.refuse(sig.fn_token, message);
        sig.asyncness = Some(Token![async](sig.fn_token.span));
    }
    if let Some(token) = sig.unsafety.take() {
        let message =
            "a workflow cannot be `unsafe`, because the worker cannot fulfill its safety conditions: remove `unsafe`";
        errors.refuse(token, message);
    }
    if let Some(abi) = sig.abi.take() {
        let message = "a workflow cannot be `extern`, because only a worker calls it: remove `extern`";
        errors.refuse(abi, message);
    }
    if let Some(variadic) = sig.variadic.take() {
        let message = "a workflow cannot be variadic: take one input, such as a `Vec`";
        errors.refuse(variadic, message);
    }
}

fn refuse_generics(sig: &Signature, errors: &mut Errors) -> Option<()> {
    let generics = &sig.generics;
    if generics.params.is_empty() {
        let clause = generics.where_clause.as_ref();
        if let Some(clause) = clause {
            errors.refuse(
                clause,
                "a workflow cannot have a `where` clause, because its types are concrete: remove the clause",
            );
        }
        return clause.is_none().then_some(());
    }
    // One message for the whole list is enough. Without the parameters, a `where` clause goes too.
    let message = if generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_))) {
        "a workflow cannot have lifetime parameters: write `ctx: &Ctx<S>`, and take an input that owns its data"
    } else {
        "a workflow cannot be generic, because a worker finds it by its name: write one workflow for each type"
    };
    errors.refuse(&generics.params, message);
    None
}

fn check_arguments(sig: &mut Signature, errors: &mut Errors) -> Option<(Context, Option<Type>)> {
    let named_lifetimes = sig.generics.lifetimes().next().is_some();
    let span = sig.paren_token.span.join();
    let mut args = sig.inputs.iter_mut();
    let (ctx, input) = match (args.next(), args.next()) {
        (None, _) => {
            errors.refuse_at(
                span,
                "a workflow takes its context as the first argument: write `ctx: &Ctx`, or `ctx: &Ctx<S>` to use the worker's state `S`",
            );
            return None;
        }
        // The check stops here, because the meaning of the other arguments is unknown.
        (Some(FnArg::Receiver(receiver)), _) => {
            errors.refuse(
                receiver,
                "a workflow cannot take `self`: write a free function that gets its data from `ctx.state()` and from its input",
            );
            return None;
        }
        (Some(FnArg::Typed(ctx)), input) => (ctx, input),
    };

    // Without a context, the check stops, because the meaning of the other arguments is unknown.
    let context = check_context(&mut ctx.ty, named_lifetimes, errors)?;
    let plain_name = check_context_name(&ctx.pat, errors);
    let input = match input {
        Some(FnArg::Typed(input)) => check_input(&input.ty, errors).map(|()| Some((*input.ty).clone())),
        // The parser accepts `self` only as the first argument.
        Some(FnArg::Receiver(_)) | None => Some(None),
    };
    let mut one_input = Some(());
    for extra in args {
        errors.refuse(
            extra,
            "a workflow takes one input after its context: combine the arguments in a struct or a tuple, such as `(id, count): (u64, u32)`",
        );
        one_input = None;
    }

    plain_name?;
    one_input?;
    Some((context, input?))
}

/// The parts of the definition that the context argument contains.
struct Context {
    state: Option<Type>,
    span: Span,
}

fn check_context(ty: &mut Type, named_lifetimes: bool, errors: &mut Errors) -> Option<Context> {
    let context = {
        let path = match inner_type(ty) {
            Type::Reference(reference) => inner_type(&reference.elem),
            other => other,
        };
        let Some(segment) = ctx_segment(path) else {
            errors.refuse(
                &*ty,
                "the first argument of a workflow must be its context: write `ctx: &Ctx`, or `ctx: &Ctx<S>` to use the worker's state `S`",
            );
            return None;
        };
        Context { state: state_type(segment), span: segment.ident.span() }
    };

    let Type::Reference(reference) = inner_type_mut(ty) else {
        errors.refuse(&*ty, "a workflow borrows its context: write `&` before the type, as in `ctx: &Ctx<S>`");
        let path = inner_type(ty);
        *ty = syn::parse_quote!(&#path);
        return Some(context);
    };
    if let Some(token) = reference.mutability.take() {
        let message = "a workflow shares its context between concurrent branches: write `&Ctx<S>` without `mut`";
        errors.refuse(token, message);
    }
    // A lifetime that the function declares is refused at its declaration.
    if let Some(lifetime) = reference.lifetime.take_if(|lifetime| lifetime.ident != "_")
        && !named_lifetimes
    {
        let message = "a workflow cannot choose how long it borrows its context: write `&Ctx<S>` without a lifetime";
        errors.refuse(lifetime, message);
    }
    Some(context)
}

/// Returns the last segment of the path if it is `Ctx`.
///
/// Only the last segment counts, because the SDK's `Ctx` may be re-exported under any path.
fn ctx_segment(ty: &Type) -> Option<&PathSegment> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    (path.qself.is_none() && segment.ident == "Ctx").then_some(segment)
}

/// Returns the state `S` of `Ctx<S>`.
///
/// Returns `None` for `Ctx` and `Ctx<()>`, which any worker can provide.
///
/// Surplus generic arguments are left to the compiler, which reports them anyway.
fn state_type(segment: &PathSegment) -> Option<Type> {
    let PathArguments::AngleBracketed(list) = &segment.arguments else {
        return None;
    };
    list.args.iter().find_map(|arg| match arg {
        GenericArgument::Type(ty) if !is_unit(ty) => Some(ty.clone()),
        _ => None,
    })
}

fn is_unit(ty: &Type) -> bool {
    matches!(inner_type(ty), Type::Tuple(tuple) if tuple.elems.is_empty())
}

fn check_context_name(pat: &Pat, errors: &mut Errors) -> Option<()> {
    match pat {
        Pat::Wild(_) => Some(()),
        Pat::Ident(name) if name.subpat.is_none() => Some(()),
        other => {
            errors.refuse(other, "the context of a workflow cannot be a pattern: give it a name, as in `ctx: &Ctx<S>`");
            None
        }
    }
}

fn check_input(ty: &Type, errors: &mut Errors) -> Option<()> {
    if let Type::Reference(reference) = inner_type(ty) {
        errors.refuse(
            reference,
            "the input of a workflow is stored with the run, so it must own its data: take `String` instead of `&str`, `Vec<T>` instead of `&[T]`, or `T` instead of `&T`",
        );
        return None;
    }
    refuse_impl_trait(
        ty,
        "the input of a workflow must have a concrete type, because workers read it back from the database: name the type instead of `impl Trait`",
        errors,
    )
}

fn check_return_type(sig: &Signature, errors: &mut Errors) -> Option<Type> {
    const NO_RESULT: &str =
        "a workflow must return a `Result`: write `-> Result<T>`, or `-> Result<()>` if it returns no value";
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
            refuse_impl_trait(
                ty,
                "the output of a workflow must have a concrete type, because clients read it back from the database: write `-> Result<T>` with a named type `T`",
                errors,
            )?;
            Some((**ty).clone())
        }
    }
}

/// Refuses a type that contains `impl Trait`.
///
/// Searches the tokens, because `impl Trait` may be at any depth of the type.
fn refuse_impl_trait(ty: &Type, message: &str, errors: &mut Errors) -> Option<()> {
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

/// Returns the type inside of parentheses and invisible groups.
///
/// A type that went through a `macro_rules!` fragment arrives in an invisible group.
fn inner_type(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => inner_type(&group.elem),
        Type::Paren(paren) => inner_type(&paren.elem),
        other => other,
    }
}

fn inner_type_mut(ty: &mut Type) -> &mut Type {
    match ty {
        Type::Group(group) => inner_type_mut(&mut group.elem),
        Type::Paren(paren) => inner_type_mut(&mut paren.elem),
        other => other,
    }
}
