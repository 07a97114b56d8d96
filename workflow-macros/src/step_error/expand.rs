//! Turns a [`Definition`] into tokens. Nothing here can fail.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, LitStr, Path};

use super::model::{Definition, Shape};
use super::retry::Advice;
use crate::expand::located_at;

/// Generates the implementation and its registration.
///
/// Through the registration, the SDK finds the implementation for a value whose type is erased.
pub(super) fn expand(definition: &Definition) -> TokenStream {
    let Definition { krate, ident, .. } = definition;
    let name = stored_name(definition);
    let arms = definition.shapes.iter().map(|shape| match_arm(shape, krate));
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

fn stored_name(definition: &Definition) -> TokenStream {
    match &definition.name {
        Some(name) => quote!(#name),
        // The full path, because several modules of a program may have an `Error`.
        None => {
            let ident = LitStr::new(&definition.ident.unraw().to_string(), Span::call_site());
            quote!(::core::concat!(::core::module_path!(), "::", #ident))
        }
    }
}

fn match_arm(shape: &Shape, krate: &Path) -> TokenStream {
    let path = match &shape.variant {
        Some(variant) => quote!(Self::#variant),
        None => quote!(Self),
    };
    match &shape.advice {
        Advice::Policy => quote!(#path { .. } => #krate::RetryAdvice::Policy,),
        Advice::Never => quote!(#path { .. } => #krate::RetryAdvice::Never,),
        Advice::After(member, ty) => {
            let delay = Ident::new("delay", Span::mixed_site());
            // The compiler reports a field that is not a delay at its type.
            let at = located_at(ty.span());
            let advice = quote_spanned!(at=> <#ty as #krate::__private::RetryDelay>::advice(#delay));
            quote!(#path { #member: ref #delay, .. } => #advice,)
        }
    }
}
