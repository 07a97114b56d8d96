//! Inside and outside of its body, the name of a workflow is the workflow. Variables, parameters,
//! modules and types may have the same name.
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

/// The author's input often has the name of the workflow.
#[workflow]
async fn loan(_ctx: &Ctx, loan: u32) -> Result<u32> {
    let project = loan + 1;
    let (run, itself) = (project, 1);
    Ok(run + itself)
}

fn twice(loan: u32) -> u32 {
    let project = |run: u32| run * 2;
    match loan {
        0 => 0,
        itself => project(itself),
    }
}

/// A module may have the name of the workflow that it contains and re-exports.
mod refund {
    use workflow_sdk::prelude::*;

    #[workflow]
    pub(super) async fn refund(_ctx: &Ctx) -> Result<()> {
        Ok(())
    }
}
use refund::refund;

/// A type may have the name of a workflow.
#[derive(Debug, PartialEq)]
#[allow(non_camel_case_types)]
struct loan {
    cents: u32,
}

#[test]
fn the_name_of_a_workflow_can_be_shadowed() {
    assert_eq!(is_workflow(loan), "loan");
    assert_eq!(is_workflow(refund), "refund");
    assert_eq!(is_workflow(|| loan), "loan", "a function that returns a workflow");
    assert_eq!(twice(21), 42);
    let loan = loan { cents: 2 };
    assert_eq!(loan.cents, 2);
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
