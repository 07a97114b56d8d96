//! Tokens: writes a [`Definition`] down. Nothing here can fail.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Meta, Token, punctuated::Punctuated, spanned::Spanned};

use crate::model::Definition;

/// The unit struct, the function as its associated function, and the impls that let clients and workers use it.
pub(crate) fn expand(definition: &Definition) -> TokenStream {
    let attrs = Attrs::sort(&definition.function.attrs);
    let unit_struct = unit_struct(definition, &attrs);
    let function = function(definition, &attrs);
    let workflow = workflow(definition, &attrs);
    let runs_with = runs_with(definition, &attrs);
    quote! {
        #unit_struct
        #function
        #workflow
        #runs_with
    }
}

fn unit_struct(definition: &Definition, attrs: &Attrs<'_>) -> TokenStream {
    let vis = &definition.function.vis;
    let ident = &definition.function.sig.ident;
    let attrs = attrs.on_struct();
    // "Defined here" and "missing documentation" show the function, not the attribute.
    let item = quote_spanned!(located_at(ident.span())=> struct #ident;);
    quote! {
        #[allow(non_camel_case_types)]
        #(#attrs)*
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #vis #item
    }
}

/// As an associated function it keeps the name that the author gave it, in backtraces and in compile errors, while that
/// name inside its body is the workflow: a workflow can start itself.
fn function(definition: &Definition, attrs: &Attrs<'_>) -> TokenStream {
    let on_impl = attrs.on_impl();
    let on_function = &attrs.on_function;
    let sig = &definition.function.sig;
    let body = &definition.function.body;
    let ident = &sig.ident;
    quote! {
        #on_impl
        impl #ident {
            #(#on_function)*
            #sig #body
        }
    }
}

fn workflow(definition: &Definition, attrs: &Attrs<'_>) -> TokenStream {
    let on_impl = attrs.on_impl();
    let Definition { krate, name, version, returns, .. } = definition;
    let retry = definition.retry.as_ref().map(|policy| {
        quote! {
            const RETRY: ::core::option::Option<#krate::Retry> = ::core::option::Option::Some(#policy);
        }
    });
    let ident = &definition.function.sig.ident;
    let state = match &definition.state {
        Some(state) => quote_spanned!(located_at(state.span())=> type State = #state;),
        None => quote!(
            type State = ();
        ),
    };
    let (input, input_name, ctx_and_input) = match &definition.input {
        Some(input) => (quote!(#input), quote!(input), quote!(, input)),
        None => (quote!(()), quote!(_), quote!()),
    };
    // The compiler puts its errors under these tokens, so they are located where the author can do something about them:
    // a context that is not the SDK's, and around the return type a future that is not `Send` or an output that cannot
    // be stored. Tokens in two places would make one mistake two messages.
    let ctx = quote_spanned!(located_at(definition.ctx_span)=> ctx);
    let at = located_at(returns.span());
    let sdk = relocated(krate, at);
    let own_function = relocated(ident, at);
    let output = quote_spanned!(at=> <#returns as #sdk::__private::WorkflowResult>::Output);
    let future = quote_spanned! {at=>
        impl ::core::future::Future<Output = #sdk::Result<Self::Output>> + ::core::marker::Send + 'a
    };
    let body = quote_spanned! {at=>
        async move {
            #sdk::__private::WorkflowResult::into_result(Self::#own_function(#ctx #ctx_and_input).await)
        }
    };
    quote! {
        #on_impl
        impl #krate::Workflow for #ident {
            #state
            type Input = #input;
            type Output = #output;
            const NAME: &'static ::core::primitive::str = #name;
            const VERSION: &'static ::core::primitive::str = #version;
            #retry

            fn run<'a>(ctx: &'a #krate::Ctx<Self::State>, #input_name: Self::Input) -> #future {
                #body
            }
        }
    }
}

/// Which workers may register the workflow: those with its state, or all if it has none.
fn runs_with(definition: &Definition, attrs: &Attrs<'_>) -> TokenStream {
    let on_impl = attrs.on_impl();
    let krate = &definition.krate;
    let ident = &definition.function.sig.ident;
    match &definition.state {
        Some(state) => quote! {
            #on_impl
            impl #krate::RunsWith<#state> for #ident {
                fn project(worker: &::std::sync::Arc<#state>) -> ::std::sync::Arc<#state> {
                    ::std::sync::Arc::clone(worker)
                }
            }
        },
        None => quote! {
            #on_impl
            impl<S> #krate::RunsWith<S> for #ident
            where
                S: ::core::marker::Send + ::core::marker::Sync + 'static,
            {
                fn project(_: &::std::sync::Arc<S>) -> ::std::sync::Arc<()> {
                    ::std::sync::Arc::new(())
                }
            }
        },
    }
}

/// The author's place with the macro's hygiene: the error shows there, and lints still know that nobody wrote this.
pub(crate) fn located_at(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// The same tokens in another place, with the hygiene they had.
fn relocated(tokens: impl ToTokens, place: Span) -> TokenStream {
    let relocate = |mut token: TokenTree| {
        token.set_span(token.span().located_at(place));
        token
    };
    tokens.into_token_stream().into_iter().map(relocate).collect()
}

/// The author's attributes by where they belong.
#[derive(Default)]
struct Attrs<'a> {
    cfgs: Vec<&'a Attribute>,
    lints: Vec<&'a Attribute>,
    docs: Vec<&'a Attribute>,
    deprecated: bool,
    on_function: Vec<&'a Attribute>,
}

impl<'a> Attrs<'a> {
    fn sort(attrs: &'a [Attribute]) -> Attrs<'a> {
        let mut sorted = Attrs::default();
        for attr in attrs {
            let subject = subject(attr);
            if attr.path().is_ident("cfg") {
                sorted.cfgs.push(attr);
            } else if subject == "deprecated" || subject == "doc" {
                sorted.deprecated |= subject == "deprecated";
                sorted.docs.push(attr);
            } else {
                // Not `expect`: it complains on each item where the lint does not fire.
                if ["allow", "warn", "deny", "forbid"].contains(&subject.as_str()) {
                    sorted.lints.push(attr);
                }
                sorted.on_function.push(attr);
            }
        }
        sorted
    }

    fn on_struct(&self) -> impl Iterator<Item = &&'a Attribute> {
        self.cfgs.iter().chain(&self.lints).chain(&self.docs)
    }

    fn on_impl(&self) -> TokenStream {
        let cfgs = &self.cfgs;
        let lints = &self.lints;
        // The impls have to name what its users are told to leave.
        let quiet = self.deprecated.then(|| quote!(#[allow(deprecated)]));
        quote!(#(#cfgs)* #(#lints)* #quiet)
    }
}

/// The name of an attribute, and of the first one inside a `cfg_attr`, which belongs where that one does.
fn subject(attr: &Attribute) -> String {
    if attr.path().is_ident("cfg_attr")
        && let Ok(inner) = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        && let Some(first) = inner.iter().nth(1)
    {
        return name(first);
    }
    name(&attr.meta)
}

fn name(meta: &Meta) -> String {
    let ident = meta.path().get_ident();
    ident.map(ToString::to_string).unwrap_or_default()
}
