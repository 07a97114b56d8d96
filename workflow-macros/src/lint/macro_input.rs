//! Reads the input of macros that take expressions, such as `println!` and `select!`.

use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Macro, Pat, Result, Token};

/// One part of a macro's input: a branch of a `select!`, or one argument of another macro.
pub(super) struct Branch {
    /// The pattern to which a branch of a `select!` binds its result.
    pub(super) pat: Option<Pat>,
    pub(super) expressions: Vec<Expr>,
}

/// Returns the expressions in a macro's input.
///
/// The list is empty if the input does not consist of expressions, or if they are not executed.
pub(super) fn branches(call: &Macro) -> Vec<Branch> {
    let name = call.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    match name.as_str() {
        "stringify" | "concat" | "cfg" | "include" | "include_str" | "include_bytes" | "macro_rules" => Vec::new(),
        "join" | "try_join" => joined.parse2(call.tokens.clone()).unwrap_or_default(),
        "select" | "select_biased" => call.parse_body::<Select>().map(|select| select.branches).unwrap_or_default(),
        _ => expressions.parse2(call.tokens.clone()).unwrap_or_default(),
    }
}

/// Returns whether a `select!` or `join!` begins with `biased;`.
pub(super) fn is_biased(call: &Macro) -> bool {
    let begins = |input: ParseStream<'_>| {
        let found = input.peek(Ident) && input.parse::<Ident>()? == "biased";
        input.parse::<proc_macro2::TokenStream>()?;
        Ok(found)
    };
    call.parse_body_with(begins).unwrap_or_default()
}

/// Parses `a, b`, or `biased; a, b`.
fn joined(input: ParseStream<'_>) -> Result<Vec<Branch>> {
    if input.peek(Ident) && input.peek2(Token![;]) {
        input.parse::<Ident>()?;
        input.parse::<Token![;]>()?;
    }
    expressions(input)
}

/// Parses `a, b`, or `a; n` as in `vec![a; n]`.
fn expressions(input: ParseStream<'_>) -> Result<Vec<Branch>> {
    let branch = |expression| Branch { pat: None, expressions: vec![expression] };
    let ahead = input.fork();
    if let Ok(first) = ahead.parse::<Expr>()
        && ahead.peek(Token![;])
    {
        ahead.parse::<Token![;]>()?;
        let second = ahead.parse::<Expr>()?;
        input.parse::<proc_macro2::TokenStream>()?;
        return Ok(vec![branch(first), branch(second)]);
    }
    let list = Punctuated::<Expr, Token![,]>::parse_terminated(input)?;
    Ok(list.into_iter().map(branch).collect())
}

/// The input of the `select!` of `tokio` and of `futures`.
struct Select {
    branches: Vec<Branch>,
}

impl Parse for Select {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(Ident) && input.peek2(Token![;]) {
            input.parse::<Ident>()?;
            input.parse::<Token![;]>()?;
        }
        let mut branches = Vec::new();
        while !input.is_empty() {
            branches.push(branch(input)?);
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(Select { branches })
    }
}

/// Parses `pattern = future, if condition => handler`, `else => handler` or `complete => handler`.
fn branch(input: ParseStream<'_>) -> Result<Branch> {
    let mut expressions = Vec::new();
    let mut pat = None;
    if input.parse::<Option<Token![else]>>()?.is_none() {
        let found = Pat::parse_multi_with_leading_vert(input)?;
        // Without this check, the `=` of `=>` would be taken for the `=` before a future.
        if !input.peek(Token![=>]) {
            input.parse::<Token![=]>()?;
            expressions.push(input.parse()?);
            pat = Some(found);
        }
        if input.peek(Token![,]) && input.peek2(Token![if]) {
            input.parse::<Token![,]>()?;
            input.parse::<Token![if]>()?;
            expressions.push(input.parse()?);
        }
    }
    input.parse::<Token![=>]>()?;
    expressions.push(Expr::parse_with_earlier_boundary_rule(input)?);
    Ok(Branch { pat, expressions })
}
