//! The code that the derive generates. `ui/fail` shows its messages.

use proc_macro2::TokenStream;
use quote::quote;

use super::derive;

fn assert_same(found: &TokenStream, expected: &TokenStream) {
    assert_eq!(found.to_string(), expected.to_string());
}

#[test]
fn an_enum_has_advice_for_each_variant() {
    let found = derive(quote! {
        #[retry(never)]
        enum CardError {
            Stolen(u32),
            #[retry(after = 1)]
            Busy(u32, Duration),
            #[retry(policy)]
            Away,
        }
    });
    assert_same(
        &found,
        &quote! {
            #[automatically_derived]
            #[allow(deprecated)]
            impl ::workflow_sdk::StepError for CardError {
                const NAME: &'static ::core::primitive::str =
                    ::core::concat!(::core::module_path!(), "::", "CardError");

                fn retry_advice(&self) -> ::workflow_sdk::RetryAdvice {
                    match *self {
                        Self::Stolen { .. } => ::workflow_sdk::RetryAdvice::Never,
                        Self::Busy { 1: ref delay, .. } =>
                            <Duration as ::workflow_sdk::__private::RetryDelay>::advice(delay),
                        Self::Away { .. } => ::workflow_sdk::RetryAdvice::Policy,
                    }
                }
            }

            ::workflow_sdk::__private::submit! {
                ::workflow_sdk::__private::Registered::of::<CardError>()
            }
        },
    );
}

#[test]
fn a_struct_has_one_advice_and_may_have_a_name() {
    let found = derive(quote! {
        #[retry(never)]
        #[step_error(name = "sold out", crate = "sdk")]
        struct SoldOut;
    });
    assert_same(
        &found,
        &quote! {
            #[automatically_derived]
            #[allow(deprecated)]
            impl sdk::StepError for SoldOut {
                const NAME: &'static ::core::primitive::str = "sold out";

                fn retry_advice(&self) -> sdk::RetryAdvice {
                    match *self {
                        Self { .. } => sdk::RetryAdvice::Never,
                    }
                }
            }

            sdk::__private::submit! {
                sdk::__private::Registered::of::<SoldOut>()
            }
        },
    );
}

#[test]
fn a_type_with_a_refused_option_is_still_implemented() {
    let refused = [
        quote!(
            enum E {
                #[retry(nevr)]
                A,
            }
        ),
        quote!(
            enum E {
                #[retry(after = pause)]
                A,
            }
        ),
        quote!(
            #[step_error(nmae = "x")]
            enum E {
                A,
            }
        ),
    ];
    let meant = derive(quote!(
        enum E {
            A,
        }
    ))
    .to_string();
    for item in refused {
        let found = derive(item.clone()).to_string();
        assert!(found.starts_with(":: core :: compile_error"), "{item}");
        assert!(found.ends_with(&meant), "{item}\nbecame\n{found}");
    }
}

#[test]
fn an_unsupported_type_is_not_implemented() {
    for item in [
        quote!(
            enum E<T> {
                A(T),
            }
        ),
        quote!(
            union E {
                a: u8,
            }
        ),
        quote!(enum),
    ] {
        let found = derive(item.clone()).to_string();
        assert!(found.starts_with(":: core :: compile_error"), "{item}");
        assert!(!found.contains("impl"), "{item}\nbecame\n{found}");
    }
}
