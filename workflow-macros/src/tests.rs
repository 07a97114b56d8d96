//! The code that `#[workflow]` generates.
//!
//! `tests/tests/macros` compiles such code, and `ui/fail` shows the messages.

use proc_macro2::TokenStream;
use quote::quote;

use super::expand_workflow;

fn assert_same(found: &TokenStream, expected: &TokenStream) {
    assert_eq!(found.to_string(), expected.to_string());
}

#[test]
fn a_workflow_with_state_runs_with_workers_of_that_state() {
    let found = expand_workflow(
        quote!(name = "pay", version = "2"),
        quote! {
            /// Takes the money.
            #[inline]
            pub async fn checkout(ctx: &Ctx<App>, mut order: Order) -> Result<Receipt> {
                body(ctx, order)
            }
        },
    );
    assert_same(
        &found,
        &quote! {
            #[allow(dead_code, non_camel_case_types, unreachable_pub)]
            #[doc(hidden)]
            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            pub struct __checkout;

            #[allow(non_snake_case)]
            /// Takes the money.
            #[must_use = "calling a workflow does not run it: pass its name to `start`, `child` or `register`"]
            pub fn checkout() -> __checkout { __checkout }

            impl __checkout {
                #[inline]
                async fn checkout(ctx: &Ctx<App>, mut order: Order) -> Result<Receipt> {
                    body(ctx, order)
                }
            }

            impl ::workflow_sdk::Workflow for __checkout {
                type State = App;
                type Input = Order;
                type Output = <Result<Receipt> as ::workflow_sdk::__private::WorkflowResult>::Output;
                const NAME: &'static ::core::primitive::str = "pay";
                const VERSION: &'static ::core::primitive::str = "2";

                fn run<'a>(
                    ctx: &'a ::workflow_sdk::Ctx<Self::State>,
                    input: Self::Input
                ) -> impl ::core::future::Future<Output = ::workflow_sdk::Result<Self::Output>>
                    + ::core::marker::Send
                    + 'a
                {
                    async move {
                        ::workflow_sdk::__private::WorkflowResult::into_result(
                            Self::checkout(ctx, input).await
                        )
                    }
                }
            }

            impl ::workflow_sdk::RunsWith<App> for __checkout {
                fn project(worker: &::std::sync::Arc<App>) -> ::std::sync::Arc<App> {
                    ::std::sync::Arc::clone(worker)
                }
            }
        },
    );
}

#[test]
fn a_workflow_without_state_runs_with_every_worker() {
    let found = expand_workflow(
        quote!(crate = "sdk"),
        quote!(
            #[cfg(unix)]
            async fn hello(_: &Ctx) -> Result<()> {}
        ),
    );
    assert_same(
        &found,
        &quote! {
            #[allow(dead_code, non_camel_case_types, unreachable_pub)]
            #[cfg(unix)]
            #[doc(hidden)]
            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            struct __hello;

            #[allow(non_snake_case)]
            #[cfg(unix)]
            #[must_use = "calling a workflow does not run it: pass its name to `start`, `child` or `register`"]
            fn hello() -> __hello { __hello }

            #[cfg(unix)]
            impl __hello {
                async fn hello(_: &Ctx) -> Result<()> {}
            }

            #[cfg(unix)]
            impl sdk::Workflow for __hello {
                type State = ();
                type Input = ();
                type Output = <Result<()> as sdk::__private::WorkflowResult>::Output;
                const NAME: &'static ::core::primitive::str = "hello";
                const VERSION: &'static ::core::primitive::str = "1";

                fn run<'a>(
                    ctx: &'a sdk::Ctx<Self::State>,
                    _: Self::Input
                ) -> impl ::core::future::Future<Output = sdk::Result<Self::Output>>
                    + ::core::marker::Send
                    + 'a
                {
                    async move {
                        sdk::__private::WorkflowResult::into_result(Self::hello(ctx).await)
                    }
                }
            }

            #[cfg(unix)]
            impl<S> sdk::RunsWith<S> for __hello
            where
                S: ::core::marker::Send + ::core::marker::Sync + 'static,
            {
                fn project(_: &::std::sync::Arc<S>) -> ::std::sync::Arc<()> {
                    ::std::sync::Arc::new(())
                }
            }
        },
    );
}

#[test]
fn a_queue_and_a_gate_become_items_of_the_impl() {
    let found = expand_workflow(
        quote!(queue = "accounts", gate = |order: &Order| &order.account),
        quote!(
            async fn checkout(ctx: &Ctx, order: Order) -> Result<()> {}
        ),
    )
    .to_string();
    let items = quote! {
        const VERSION: &'static ::core::primitive::str = "1";
        const QUEUE: ::core::option::Option<&'static ::core::primitive::str> =
            ::core::option::Option::Some("accounts");
        fn gate(input: &Self::Input) -> ::core::option::Option<::std::string::String> {
            ::workflow_sdk::__private::gate_of(input, |order: &Order| &order.account)
        }
        fn run<'a>
    };
    assert!(found.contains(&items.to_string()), "{found}");
}

#[test]
fn a_repairable_mistake_still_generates_the_workflow() {
    let meant = quote!(
        async fn checkout(ctx: &Ctx<App>, order: Order) -> Result<()> {}
    );
    let workflow = expand_workflow(quote!(), meant.clone()).to_string();
    let mistakes = [
        (quote!(nmae = "x"), meant.clone()),
        (quote!(name), meant.clone()),
        (quote!(name "x"), meant.clone()),
        (quote!(queue = 7), meant.clone()),
        (quote!(gate = "acct-42"), meant),
        (
            quote!(),
            quote!(
                fn checkout(ctx: &Ctx<App>, order: Order) -> Result<()> {}
            ),
        ),
        (
            quote!(),
            quote!(
                async fn checkout(ctx: Ctx<App>, order: Order) -> Result<()> {}
            ),
        ),
        (
            quote!(),
            quote!(
                async fn checkout(ctx: &'static mut Ctx<App>, order: Order) -> Result<()> {}
            ),
        ),
        (
            quote!(),
            quote!(
                const unsafe extern "C" fn checkout(ctx: &Ctx<App>, order: Order) -> Result<()> {}
            ),
        ),
    ];
    for (options, item) in mistakes {
        let found = expand_workflow(options, item.clone()).to_string();
        assert!(found.starts_with(":: core :: compile_error"), "{item}");
        assert!(found.ends_with(&workflow), "{item}\nbecame\n{found}");
    }
}

/// The body also stays as written if it does not parse, so that the compiler reports its mistakes.
#[test]
fn a_source_of_divergence_does_not_change_the_workflow() {
    let item = |body: &TokenStream| quote!(async fn checkout(ctx: &Ctx) -> Result<()> { #body });
    let diverges = item(&quote!(let now = SystemTime::now();));
    let allowed = expand_workflow(quote!(allow(wall_clock)), diverges.clone()).to_string();
    assert!(allowed.starts_with("# [allow (dead_code"), "{allowed}");
    assert!(allowed.contains("{ let now = SystemTime :: now () ; }"), "{allowed}");
    let refused = expand_workflow(quote!(), diverges).to_string();
    assert!(refused.starts_with(":: core :: compile_error"), "{refused}");
    assert!(refused.ends_with(&allowed), "{refused}");

    let unparsed = expand_workflow(quote!(), item(&quote!(let now = ; SystemTime::now() newer syntax))).to_string();
    assert!(!unparsed.contains("compile_error"), "{unparsed}");
    assert!(unparsed.contains("{ let now = ; SystemTime :: now () newer syntax }"), "{unparsed}");
}

#[test]
fn a_mistake_without_a_repair_leaves_the_item_as_written() {
    let items = [
        quote!(
            struct Checkout {
                id: u64,
            }
        ),
        quote!(
            async fn checkout<T>(ctx: &Ctx, input: T) -> Result<()> {}
        ),
        quote!(
            async fn checkout(&self, ctx: &Ctx) -> Result<()> {}
        ),
        quote!(
            async fn checkout(ctx: &Ctx) {}
        ),
        quote!(
            #[workflow]
            async fn checkout(ctx: &Ctx) -> Result<()> {}
        ),
        // Unfinished code, which does not parse.
        quote!(async fn checkout(ctx: ) -> Result<()> {}),
        quote!(pub),
        quote!(),
    ];
    for item in items {
        let found = expand_workflow(quote!(), item.clone()).to_string();
        assert!(found.starts_with(":: core :: compile_error"), "{item}");
        assert!(found.ends_with(&item.to_string()), "{item}\nbecame\n{found}");
    }
}
