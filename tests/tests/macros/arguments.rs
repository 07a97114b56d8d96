//! All accepted forms of the context and of the input.
#![deny(warnings)]

use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

struct App;

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
    count: u32,
}

#[workflow]
async fn state_and_input(ctx: &Ctx<App>, order: Order) -> Result<u64> {
    let App = ctx.state();
    Ok(order.id)
}

#[workflow]
async fn state_only(_ctx: &Ctx<App>) -> Result<()> {
    Ok(())
}

#[workflow]
async fn input_only(_: &Ctx, input: String) -> Result<String> {
    Ok(input)
}

#[workflow]
async fn unit_state(_ctx: &Ctx<()>, _: u8) -> Result<()> {
    Ok(())
}

#[workflow]
async fn elided_lifetime(_ctx: &'_ Ctx<App>) -> Result<()> {
    Ok(())
}

#[workflow]
async fn full_path(_ctx: &workflow_sdk::Ctx<App>) -> Result<()> {
    Ok(())
}

#[workflow]
async fn struct_pattern(_ctx: &Ctx<App>, Order { id, .. }: Order) -> Result<u64> {
    Ok(id)
}

#[workflow]
async fn tuple_pattern(_ctx: &Ctx<App>, (id, count): (u64, u32)) -> Result<Order> {
    Ok(Order { id, count })
}

#[workflow]
async fn mutable_input(_ctx: &Ctx<App>, mut order: Order) -> Result<Order> {
    order.count += 1;
    Ok(order)
}

#[workflow]
async fn attribute_on_argument(#[allow(unused_variables)] ctx: &Ctx, input: u8) -> Result<u8> {
    Ok(input)
}

/// The name, the types and the body may come from a `macro_rules!`.
macro_rules! declare {
    ($name:ident, $label:literal, $ctx:ty, $state:ty, $input:ty, $output:ty, $body:block) => {
        #[workflow(name = $label)]
        async fn $name(_ctx: $ctx, _input: $input) -> $output $body

        const _: fn(&Ctx<$state>) = |_| {};
    };
}

declare!(declared, "declared/2", &Ctx<App>, App, u8, Result<()>, { Ok(()) });

fn typed<S, I, O>(_: impl Workflow<State = S, Input = I, Output = O>) {}

#[test]
fn each_form_of_arguments_is_accepted() {
    typed::<App, Order, u64>(state_and_input);
    typed::<App, (), ()>(state_only);
    typed::<(), String, String>(input_only);
    typed::<(), u8, ()>(unit_state);
    typed::<App, (), ()>(elided_lifetime);
    typed::<App, (), ()>(full_path);
    typed::<App, Order, u64>(struct_pattern);
    typed::<App, (u64, u32), Order>(tuple_pattern);
    typed::<App, Order, Order>(mutable_input);
    typed::<(), u8, u8>(attribute_on_argument);
    typed::<App, u8, ()>(declared);
}
