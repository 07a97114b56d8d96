use workflow_sdk::prelude::*;

#[workflow]
async fn of_type<T: Send>(_ctx: &Ctx, _input: T) -> Result<()> {
    Ok(())
}

#[workflow]
async fn of_const<const N: usize>(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow]
async fn of_lifetime_and_type<'a, T>(_ctx: &'a Ctx, _input: T) -> Result<()>
where
    T: Send,
{
    Ok(())
}

fn main() {}
