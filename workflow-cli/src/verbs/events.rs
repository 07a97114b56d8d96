use workflow_sdk::operate::{Action, Operate};

use crate::arguments::EventsVerb;
use crate::output::Output;
use crate::{Exit, Failure};

use super::order::perform;
use super::payload;

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: EventsVerb) -> Result<Exit, Failure> {
    let EventsVerb::Emit { name, key, payload, author } = verb;
    let payload = payload::load(payload).await?;
    perform(operate, output, Action::EmitEvent { name, key, payload }, &author).await
}
