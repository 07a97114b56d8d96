//! Tokens: writes a [`Definition`] down. Nothing here can fail.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, LitStr, Path};

use super::advice::Advice;
use super::model::{Definition, Shape};
use crate::expand::located_at;

/// The implementation, and the entry by which the SDK finds it from a value whose type is erased.
pub(super) fn expand(definition: &Definition) -> TokenStream {
    let Definition { krate, ident, .. } = definition;
    let name = name(definition);
    let arms = definition.shapes.iter().map(|shape| arm(shape, krate));
    quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #krate::StepError for #ident {
            const NAME: &'static ::core::primitive::str = #name;

            fn retry_advice(&self) -> #krate::RetryAdvice {
                match *self {
                    #(#arms)*
                }
            }
        }

        #krate::__private::submit! {
            #krate::__private::Registered::of::<#ident>()
        }
    }
}

fn name(definition: &Definition) -> TokenStream {
    match &definition.name {
        Some(name) => quote!(#name),
        // The path, not the bare name: a program may have an `Error` in each of its modules.
        None => {
            let ident = LitStr::new(&definition.ident.unraw().to_string(), Span::call_site());
            quote!(::core::concat!(::core::module_path!(), "::", #ident))
        }
    }
}

fn arm(shape: &Shape, krate: &Path) -> TokenStream {
    let path = match &shape.variant {
        Some(variant) => quote!(Self::#variant),
        None => quote!(Self),
    };
    match &shape.advice {
        Advice::Policy => quote!(#path { .. } => #krate::RetryAdvice::Policy,),
        Advice::Never => quote!(#path { .. } => #krate::RetryAdvice::Never,),
        Advice::After(member, ty) => {
            let delay = Ident::new("delay", Span::mixed_site());
            // A field that holds no delay is reported where its type stands.
            let at = located_at(ty.span());
            let advice = quote_spanned!(at=> <#ty as #krate::__private::RetryDelay>::advice(#delay));
            quote!(#path { #member: ref #delay, .. } => #advice,)
        }
    }
}
