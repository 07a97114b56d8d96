//! The type of worker state that a workflow requires.
#![deny(warnings)]

use std::sync::Arc;
use workflow_sdk::RunsWith;
use workflow_sdk::prelude::*;

struct App;
struct Other;

#[workflow]
async fn needs_app(_ctx: &Ctx<App>) -> Result<()> {
    Ok(())
}

#[workflow]
async fn needs_nothing(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn register<S, W: RunsWith<S>>(state: &Arc<S>, _workflow: W) -> Arc<W::State> {
    W::project(state)
}

#[test]
fn a_workflow_requires_its_state() {
    let app = Arc::new(App);
    assert!(Arc::ptr_eq(&app, &register(&app, needs_app)));
    let _: Arc<()> = register(&app, needs_nothing);
    let _: Arc<()> = register(&Arc::new(Other), needs_nothing);
    let _: Arc<()> = register(&Arc::new(()), needs_nothing);
}
