//! Turns a [`Definition`] into tokens. Nothing here can fail.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Attribute, Ident, Meta, Token, punctuated::Punctuated, spanned::Spanned};

use crate::model::Definition;

/// Generates a hidden type, a function that returns it, the author's function, and two impls.
///
/// The function has the author's name, so a variable or a parameter may shadow it. The impls of
/// `Workflow` and `RunsWith` are of the hidden type, and the SDK passes them on to each function
/// that returns a workflow.
pub(crate) fn expand(definition: &Definition) -> TokenStream {
    let attrs = Attributes::sort(&definition.function.attrs);
    let hidden_type = expand_type(definition, &attrs);
    let name = expand_name(definition, &attrs);
    let function = expand_function(definition, &attrs);
    let workflow = expand_workflow_impl(definition, &attrs);
    let runs_with = expand_runs_with_impl(definition, &attrs);
    quote! {
        #hidden_type
        #name
        #function
        #workflow
        #runs_with
    }
}

/// Returns the name of the hidden type.
///
/// It differs from the author's name, so that a module and a type may have that name.
fn type_name(definition: &Definition) -> Ident {
    let ident = &definition.function.sig.ident;
    format_ident!("__{}", ident, span = located_at(ident.span()))
}

fn expand_type(definition: &Definition, attrs: &Attributes<'_>) -> TokenStream {
    let vis = &definition.function.vis;
    let name = type_name(definition);
    let on_impl = attrs.on_impl();
    let item = quote_spanned!(name.span()=> struct #name;);
    // A lint about an unused or unreachable workflow is shown once, at the function.
    quote! {
        #[allow(dead_code, non_camel_case_types, unreachable_pub)]
        #on_impl
        #[doc(hidden)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #vis #item
    }
}

/// Generates the function that stands for the workflow, inside and outside of the body.
fn expand_name(definition: &Definition, attrs: &Attributes<'_>) -> TokenStream {
    let vis = &definition.function.vis;
    let ident = &definition.function.sig.ident;
    let ty = type_name(definition);
    let attrs = attrs.on_name();
    // With this span, "defined here" and "missing documentation" point at the author's function
    // instead of the attribute.
    let item = quote_spanned!(located_at(ident.span())=> fn #ident() -> #ty { #ty });
    quote! {
        #[allow(non_snake_case)]
        #(#attrs)*
        #[must_use = "calling a workflow does not run it: pass its name to `start`, `child` or `register`"]
        #vis #item
    }
}

/// Generates the associated function that holds the author's code.
///
/// It keeps the author's name in backtraces and compile errors. Inside of the body, the same name
/// is the workflow, so a workflow can start itself.
fn expand_function(definition: &Definition, attrs: &Attributes<'_>) -> TokenStream {
    let on_impl = attrs.on_impl();
    let on_function = &attrs.on_function;
    let sig = &definition.function.sig;
    let body = &definition.function.body;
    let ty = type_name(definition);
    quote! {
        #on_impl
        impl #ty {
            #(#on_function)*
            #sig #body
        }
    }
}

fn expand_workflow_impl(definition: &Definition, attrs: &Attributes<'_>) -> TokenStream {
    let on_impl = attrs.on_impl();
    let Definition { krate, name, version, returns, .. } = definition;
    let retry = definition.retry.as_ref().map(|policy| {
        quote! {
            const RETRY: ::core::option::Option<#krate::Retry> = ::core::option::Option::Some(#policy);
        }
    });
    let queue = definition.queue.as_ref().map(|queue| {
        quote! {
            const QUEUE: ::core::option::Option<&'static ::core::primitive::str> =
                ::core::option::Option::Some(#queue);
        }
    });
    let gate = expand_gate(definition);
    let ident = &definition.function.sig.ident;
    let ty = type_name(definition);
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
    // The compiler shows its errors at the spans of these tokens, so the spans point at code that
    // the author can change. A context that is not the SDK's is shown at `Ctx`. A future that is
    // not `Send` or an output that cannot be stored is shown at the return type. Two different
    // spans would cause two messages for one mistake.
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
        impl #krate::Workflow for #ty {
            #state
            type Input = #input;
            type Output = #output;
            const NAME: &'static ::core::primitive::str = #name;
            const VERSION: &'static ::core::primitive::str = #version;
            #retry
            #queue
            #gate

            fn run<'a>(ctx: &'a #krate::Ctx<Self::State>, #input_name: Self::Input) -> #future {
                #body
            }
        }
    }
}

/// Generates the function that computes the gate of an input, if the attribute has the option.
///
/// The compiler shows errors about the types of the closure at the spans of the call, so these
/// point at the closure.
fn expand_gate(definition: &Definition) -> Option<TokenStream> {
    let gate = definition.gate.as_ref()?;
    let at = located_at(gate.span());
    let sdk = relocated(&definition.krate, at);
    let call = quote_spanned!(at=> #sdk::__private::gate_of(input, #gate));
    Some(quote! {
        fn gate(input: &Self::Input) -> ::core::option::Option<::std::string::String> {
            #call
        }
    })
}

/// Generates the impl that lets workers register the workflow.
///
/// A workflow with a state runs in workers with that state, and any other workflow in all workers.
fn expand_runs_with_impl(definition: &Definition, attrs: &Attributes<'_>) -> TokenStream {
    let on_impl = attrs.on_impl();
    let krate = &definition.krate;
    let ty = type_name(definition);
    match &definition.state {
        Some(state) => quote! {
            #on_impl
            impl #krate::RunsWith<#state> for #ty {
                fn project(worker: &::std::sync::Arc<#state>) -> ::std::sync::Arc<#state> {
                    ::std::sync::Arc::clone(worker)
                }
            }
        },
        None => quote! {
            #on_impl
            impl<S> #krate::RunsWith<S> for #ty
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

/// Returns a span at the author's code with the macro's hygiene.
///
/// Errors are shown at the author's code, and lints still know that a macro generated the tokens.
pub(crate) fn located_at(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// Moves the tokens to another location and keeps their hygiene.
fn relocated(tokens: impl ToTokens, location: Span) -> TokenStream {
    let relocate = |mut token: TokenTree| {
        token.set_span(token.span().located_at(location));
        token
    };
    tokens.into_token_stream().into_iter().map(relocate).collect()
}

/// The author's attributes, sorted by the generated item that gets them.
#[derive(Default)]
struct Attributes<'a> {
    cfgs: Vec<&'a Attribute>,
    lints: Vec<&'a Attribute>,
    docs: Vec<&'a Attribute>,
    on_function: Vec<&'a Attribute>,
}

impl<'a> Attributes<'a> {
    fn sort(attrs: &'a [Attribute]) -> Attributes<'a> {
        let mut sorted = Attributes::default();
        for attr in attrs {
            let name = effective_name(attr);
            if attr.path().is_ident("cfg") {
                sorted.cfgs.push(attr);
            } else if name == "deprecated" || name == "doc" {
                sorted.docs.push(attr);
            } else {
                // `expect` is left out, because it warns on each item where the lint does not fire.
                if ["allow", "warn", "deny", "forbid"].contains(&name.as_str()) {
                    sorted.lints.push(attr);
                }
                sorted.on_function.push(attr);
            }
        }
        sorted
    }

    fn on_name(&self) -> impl Iterator<Item = &&'a Attribute> {
        self.cfgs.iter().chain(&self.lints).chain(&self.docs)
    }

    fn on_impl(&self) -> TokenStream {
        let cfgs = &self.cfgs;
        let lints = &self.lints;
        quote!(#(#cfgs)* #(#lints)*)
    }
}

/// Returns the name of the attribute, or of the first attribute inside of a `cfg_attr`.
///
/// A `cfg_attr` goes to the same item as the attribute inside of it.
fn effective_name(attr: &Attribute) -> String {
    if attr.path().is_ident("cfg_attr")
        && let Ok(inner) = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        && let Some(first) = inner.iter().nth(1)
    {
        return path_name(first);
    }
    path_name(&attr.meta)
}

fn path_name(meta: &Meta) -> String {
    let ident = meta.path().get_ident();
    ident.map(ToString::to_string).unwrap_or_default()
}
