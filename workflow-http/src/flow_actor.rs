//! The actor of a flow: a run of a flow acts for the account that its input names, so a request
//! must not write another one there.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use workflow_sdk::operate::{Action, Operate, OperateError, OperateErrorCode, Payload};

/// The workflow whose runs are those of flows. It is known without the feature `flows` too, because
/// workers of the same database may run flows.
const FLOW: &str = "flow";

/// The field of its input that names the actor.
const ACTOR: &str = "actor";

/// Makes the action start runs of flows that act for this actor, whatever actor their input names.
///
/// # Errors
/// [`OperateErrorCode::BadInput`] if the input of a flow is no object, and those of the reads of
/// the run or the schedule.
pub(crate) async fn act_for(operate: &dyn Operate, actor: &str, action: &mut Action) -> Result<(), OperateError> {
    let input = match action {
        Action::StartRun(start) if start.workflow == FLOW => &mut start.input,
        Action::ForkRun(fork) => match &mut fork.input {
            Some(input) if operate.run(fork.run).await?.summary.lane.workflow == FLOW => input,
            _ => return Ok(()),
        },
        Action::CreateSchedule(create) if create.workflow == FLOW => &mut create.input,
        Action::TriggerSchedule { schedule, input: Some(input) } if starts_flow(operate, schedule).await? => input,
        Action::UpdateSchedule(update) => match &mut update.input {
            Some(input) if starts_flow(operate, &update.schedule).await? => input,
            _ => return Ok(()),
        },
        Action::BackfillSchedule(backfill) => match &mut backfill.input {
            Some(input) if starts_flow(operate, &backfill.schedule).await? => input,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    *input = with_actor(input, actor)?;
    Ok(())
}

/// Returns `true` if the runs of a schedule are those of a flow.
async fn starts_flow(operate: &dyn Operate, schedule: &str) -> Result<bool, OperateError> {
    Ok(operate.schedule(schedule).await?.declaration.lane.workflow == FLOW)
}

/// Returns the input with this actor. Its other fields keep their digits.
fn with_actor(input: &Payload, actor: &str) -> Result<Payload, OperateError> {
    let no_object = |_| {
        let help = "send the input of a flow as an object, or start the flow by its name at /flows:run";
        OperateError::new(OperateErrorCode::BadInput, "the input of the workflow flow is no object", help)
    };
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(input.as_str()).map_err(no_object)?;
    fields.insert(ACTOR.to_owned(), serde_json::value::to_raw_value(actor).map_err(no_object)?);
    Payload::new(serde_json::to_string(&fields).map_err(no_object)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_actor_of_the_request_replaces_each_other_one() {
        let input = Payload::new(r#"{"actor":"eve","n":12345678901234567890123,"\u0061ctor":"eve"}"#).unwrap();
        let text = with_actor(&input, "b\"ob").unwrap();
        assert_eq!(text.as_str(), r#"{"actor":"b\"ob","n":12345678901234567890123}"#);
        assert_eq!(with_actor(&Payload::new("{}").unwrap(), "bob").unwrap().as_str(), r#"{"actor":"bob"}"#);
    }

    #[test]
    fn an_input_that_is_no_object_is_refused() {
        for text in ["null", "7", r#"[{},"d","n","","eve"]"#] {
            let error = with_actor(&Payload::new(text).unwrap(), "bob").unwrap_err();
            assert_eq!(error.code, OperateErrorCode::BadInput, "{text}");
        }
    }

    #[cfg(feature = "flows")]
    #[test]
    fn the_workflow_has_the_name_and_the_field() {
        use workflow_sdk::Workflow;

        assert_eq!(<workflow_flows::FlowWorkflow as Workflow>::NAME, FLOW);
        let flow = serde_json::from_str(
            r#"{"language":1,"name":"f","input":true,"timeout":1000,"on_timeout":"fail","body":{"do":[]}}"#,
        );
        let start = workflow_flows::FlowStart::new(flow.unwrap()).actor("ann");
        assert_eq!(serde_json::to_value(start).unwrap()[ACTOR], "ann");
    }
}
