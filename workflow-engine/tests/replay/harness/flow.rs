//! Flows: workflows that tests write as closures.

use std::sync::Arc;

use futures::future::BoxFuture;
use workflow_sdk::{Ctx, Result};

use crate::world::World;

/// A workflow whose output is a text about the outcomes that it saw.
pub(crate) type Flow = Arc<dyn for<'a> Fn(&'a Ctx<World>) -> BoxFuture<'a, Result<String>> + Send + Sync>;

pub(crate) fn flow_of<F>(function: F) -> Flow
where
    F: for<'a> Fn(&'a Ctx<World>) -> BoxFuture<'a, Result<String>> + Send + Sync + 'static,
{
    Arc::new(function)
}

macro_rules! flow {
    (|$ctx:ident| $body:block) => {
        $crate::harness::flow_of(|$ctx: &Ctx<World>| -> ::futures::future::BoxFuture<'_, Result<String>> {
            Box::pin(async move $body)
        })
    };
}
pub(crate) use flow;
