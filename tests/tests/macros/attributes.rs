//! The attributes and the visibility of a workflow keep the meaning that they have on a function.
#![deny(warnings, missing_docs, unreachable_pub)]

use workflow_sdk::prelude::*;

/// The docs of each function become the docs of its name, or `missing_docs` would fail.
pub mod orders {
    use workflow_sdk::prelude::*;

    /// The state of the worker.
    #[derive(Debug)]
    pub struct App;

    /// Pays an order.
    #[workflow]
    #[inline(never)]
    pub async fn pay(_ctx: &Ctx<App>) -> Result<()> {
        Ok(())
    }

    /// Attributes may be above and below `#[workflow]`.
    #[allow(unused_variables)]
    #[workflow]
    #[expect(non_snake_case)]
    #[cfg_attr(all(), allow(unused_mut))]
    pub(crate) async fn ship(ctx: &Ctx<App>) -> Result<()> {
        let mut Weight = 1;
        Ok(())
    }

    #[workflow(name = "shipAll")]
    #[allow(non_snake_case)]
    pub(super) async fn shipAll(_ctx: &Ctx<App>) -> Result<()> {
        Ok(())
    }

    /// Kept for runs of last year.
    #[workflow]
    #[deprecated = "use `pay`"]
    pub async fn charge(_ctx: &Ctx<App>) -> Result<()> {
        Ok(())
    }
}

#[workflow]
#[cfg(any())]
async fn left_out(_ctx: &Ctx<Missing>) -> Result<()> {
    Ok(())
}

#[workflow]
#[allow(dead_code)]
async fn unused(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn name_of<W: Workflow + Copy>(_: W) -> &'static str {
    W::NAME
}

#[allow(deprecated)]
#[test]
fn names_come_from_the_function() {
    assert_eq!(name_of(orders::pay), "pay");
    assert_eq!(name_of(orders::ship), "ship");
    assert_eq!(name_of(orders::shipAll), "shipAll");
    assert_eq!(name_of(orders::charge), "charge");
}
