//! Parses tokens into plain structures. `model` checks whether they make sense.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, Ident, LitStr, Result, Signature, Token, Visibility, token};

/// One option between the parentheses of `#[workflow(...)]`.
pub(crate) enum Arg {
    /// `key = value` or `key(list)`. Both are absent in a bare `key`, and in an unfinished `key =`.
    Named { key: Ident, value: Option<Expr>, list: Option<TokenStream> },
    /// A value without a key, such as `"checkout"`.
    Positional(Expr),
}

/// The function under the attribute.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The body as unparsed tokens, because the compiler may know syntax that this crate does not.
    /// Only `lint` tries to parse it.
    pub(crate) body: TokenStream,
}

/// Parses the options.
pub(crate) fn args(tokens: TokenStream) -> Result<Vec<Arg>> {
    let args = Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens)?;
    Ok(args.into_iter().collect())
}

/// Parses the function, or reports the item that was found instead.
pub(crate) fn function(tokens: TokenStream) -> Result<Function> {
    syn::parse2(tokens)
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(Ident::peek_any) {
            return input.parse().map(Arg::Positional);
        }
        // `crate` is a keyword, and a misspelled key may be one too. So every word is accepted
        // here, and `model` refuses the unknown ones.
        let key = input.call(Ident::parse_any)?;
        let mut value = None;
        let mut list = None;
        if input.parse::<Option<Token![=]>>()?.is_some() {
            if !input.is_empty() && !input.peek(Token![,]) {
                value = Some(input.parse()?);
            }
        } else if input.peek(token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            list = Some(content.parse()?);
        }
        Ok(Arg::Named { key, value, list })
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if !at_function(input) {
            return Err(not_a_function(input));
        }
        let sig: Signature = input.parse()?;
        if input.is_empty() || input.peek(Token![;]) {
            let message = "a workflow needs a body: write a free `async fn`, not a function that a trait declares";
            return Err(Error::new(sig.ident.span(), message));
        }
        let body = input.parse()?;
        Ok(Function { attrs, vis, sig, body })
    }
}

/// Returns whether the next item is a function.
///
/// Looks past the qualifiers, because `const`, `unsafe` and `extern` also begin other items.
fn at_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    while !ahead.peek(Token![fn]) {
        let qualifier = match ahead.call(Ident::parse_any) {
            Ok(word) => word,
            Err(_) => return false,
        };
        if !["const", "async", "unsafe", "safe", "extern"].contains(&qualifier.to_string().as_str()) {
            return false;
        }
        if qualifier == "extern" && ahead.parse::<Option<LitStr>>().is_err() {
            return false;
        }
    }
    true
}

fn not_a_function(input: ParseStream<'_>) -> Error {
    const MESSAGE: &str = "`#[workflow]` must be on an `async fn`";
    match input.fork().call(Ident::parse_any) {
        Ok(word) => Error::new(word.span(), format!("{MESSAGE}, found `{word}`: move the attribute to a function")),
        Err(_) => input.error(MESSAGE),
    }
}
