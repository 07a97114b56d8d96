//! Syntax: tokens in, plain structures out. Whether they make sense is for `model` to say.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, Ident, LitStr, Result, Signature, Token, Visibility, token};

/// One entry between the parentheses of `#[workflow(...)]`.
pub(crate) enum Arg {
    /// `key = value` or `key(list)`. Both are absent in `key`, and in `key =` while somebody is typing.
    Named { key: Ident, value: Option<Expr>, list: Option<TokenStream> },
    /// A value without a key, such as `"checkout"`.
    Positional(Expr),
}

/// The function under the attribute.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// Written out as it is: the compiler parses it, and knows syntax that this crate does not. Only `lint` tries to read it.
    pub(crate) body: TokenStream,
}

/// Reads the options.
pub(crate) fn args(tokens: TokenStream) -> Result<Vec<Arg>> {
    let args = Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens)?;
    Ok(args.into_iter().collect())
}

/// Reads the function, or says what stands in its place.
pub(crate) fn function(tokens: TokenStream) -> Result<Function> {
    syn::parse2(tokens)
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(Ident::peek_any) {
            return input.parse().map(Arg::Positional);
        }
        // `crate` is a keyword, and a mistyped key may be one too: all of them are read here and judged later.
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
            let message = "a workflow has a body: `#[workflow]` cannot mark a function of a trait";
            return Err(Error::new(sig.ident.span(), message));
        }
        let body = input.parse()?;
        Ok(Function { attrs, vis, sig, body })
    }
}

/// Looks past the qualifiers, because `const`, `unsafe` and `extern` also begin items that are not functions.
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
    const MESSAGE: &str = "`#[workflow]` marks an `async fn`";
    match input.fork().call(Ident::parse_any) {
        Ok(word) => Error::new(word.span(), format!("{MESSAGE}, found `{word}`")),
        Err(_) => input.error(MESSAGE),
    }
}
