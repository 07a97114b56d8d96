//! Inside and outside of its body, the name of a workflow is the workflow, even if other items have
//! the same name.
#![deny(warnings)]

use workflow_sdk::prelude::*;

fn is_workflow<W: Workflow>(_: W) -> &'static str {
    W::NAME
}

#[workflow]
async fn itself(_ctx: &Ctx, depth: u32) -> Result<u32> {
    is_workflow(itself);
    Ok(depth)
}

/// The generated code also uses the names `run`, `ctx` and `input`, and below `project`.
#[workflow]
async fn run(ctx: &Ctx, input: u32) -> Result<u32> {
    let _: &Ctx = ctx;
    Ok(input)
}

#[workflow]
async fn project(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

/// The generated code works where the author shadows names of the prelude.
mod shadowed {
    #![allow(dead_code, non_camel_case_types)]
    use workflow_sdk::{Ctx, Result as Outcome, workflow};

    struct Result;
    struct Send;
    struct Sync;
    struct Future;
    struct Arc;
    struct str;
    mod core {}
    mod std {}

    #[workflow]
    pub(super) async fn hello(_ctx: &Ctx) -> Outcome<()> {
        Ok(())
    }
}

#[test]
fn a_workflow_can_be_in_any_scope() {
    #[workflow]
    async fn local(_ctx: &Ctx) -> Result<()> {
        Ok(())
    }
    assert_eq!(is_workflow(itself), "itself");
    assert_eq!(is_workflow(run), "run");
    assert_eq!(is_workflow(project), "project");
    assert_eq!(is_workflow(shadowed::hello), "hello");
    assert_eq!(is_workflow(local), "local");
}
