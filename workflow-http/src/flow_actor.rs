//! The actor of a flow: a run of a flow acts for the account that its input names, and a decision
//! is that of the account that its answer names, so a request must not write another one there.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use workflow_sdk::internal::DECISION_SIGNAL;
use workflow_sdk::operate::{Action, BulkAction, Operate, OperateError, OperateErrorCode, Payload};

/// The workflow whose runs are those of flows. It is known without the feature `flows` too, because
/// workers of the same database may run flows.
const FLOW: &str = "flow";

/// The field of its input that names the actor.
const ACTOR: &str = "actor";

/// The field of the answer to a decision that names the account that has decided.
const BY: &str = "by";

/// The field of the answer to a decision that has the option.
const CHOICE: &str = "choice";

/// Makes the action start runs of flows that act for this actor, whatever actor their input names,
/// and decide in its name.
///
/// # Errors
/// [`OperateErrorCode::BadInput`] if the input of a flow or the answer to a decision is no object,
/// and those of the reads of the run or the schedule.
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
        Action::SignalRun { run, name, payload, .. } if name.starts_with(DECISION_SIGNAL) => {
            // An answer by the paths of steps has the name, and needs no further read.
            if !is_by(payload, actor) && operate.run(*run).await?.summary.lane.workflow == FLOW {
                *payload = decided_by(payload, actor)?;
            }
            return Ok(());
        }
        Action::StartBulk(bulk) => {
            if let BulkAction::SignalRun { name, payload, .. } = &mut bulk.apply
                && name.starts_with(DECISION_SIGNAL)
                && may_decide(payload)
            {
                *payload = decided_by(payload, actor)?;
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    *input = acting_for(input, actor)?;
    Ok(())
}

/// Returns `true` if the runs of a schedule are those of a flow.
async fn starts_flow(operate: &dyn Operate, schedule: &str) -> Result<bool, OperateError> {
    Ok(operate.schedule(schedule).await?.declaration.lane.workflow == FLOW)
}

/// Returns whether this is the answer of this actor to a decision, in the form in which the paths
/// of steps write it.
fn is_by(answer: &Payload, actor: &str) -> bool {
    /// An answer without further fields.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Own {
        #[serde(rename = "choice")]
        _choice: Box<RawValue>,
        by: String,
        #[serde(rename = "note", default)]
        _note: Option<String>,
    }

    let is_object = answer.as_str().trim_start().starts_with('{');
    is_object && serde_json::from_str::<Own>(answer.as_str()).is_ok_and(|own| own.by == actor)
}

/// Returns whether the runs of a flow could read this as the answer to a decision. A bulk operation
/// finds runs of other workflows too, whose signals stay as they are.
fn may_decide(payload: &Payload) -> bool {
    let text = payload.as_str();
    let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
    text.trim_start().starts_with('[') || fields.is_ok_and(|fields| fields.contains_key(CHOICE))
}

/// Returns the input of a flow with this actor.
fn acting_for(input: &Payload, actor: &str) -> Result<Payload, OperateError> {
    let text = with_name(input, ACTOR, actor).map_err(|_| {
        let help = "send the input of a flow as an object, or start the flow by its name at /flows:run";
        OperateError::new(OperateErrorCode::BadInput, "the input of the workflow flow is no object", help)
    });
    Payload::new(text?)
}

/// Returns the answer to a decision with this actor.
fn decided_by(answer: &Payload, actor: &str) -> Result<Payload, OperateError> {
    let text = with_name(answer, BY, actor).map_err(|_| {
        let help = "send an object with `choice`, or answer the step at /steps/{run}/{key}/ready";
        OperateError::new(OperateErrorCode::BadInput, "the answer to a decision is no object", help)
    });
    Payload::new(text?)
}

/// Returns the object with this name in this field. Its other fields keep their digits.
fn with_name(object: &Payload, field: &str, name: &str) -> serde_json::Result<String> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object.as_str())?;
    fields.insert(field.to_owned(), serde_json::value::to_raw_value(name)?);
    serde_json::to_string(&fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_actor_of_the_request_replaces_each_other_one() {
        let input = Payload::new(r#"{"actor":"eve","n":12345678901234567890123,"\u0061ctor":"eve"}"#).unwrap();
        let text = acting_for(&input, "b\"ob").unwrap();
        assert_eq!(text.as_str(), r#"{"actor":"b\"ob","n":12345678901234567890123}"#);
        assert_eq!(acting_for(&Payload::new("{}").unwrap(), "bob").unwrap().as_str(), r#"{"actor":"bob"}"#);
    }

    #[test]
    fn an_answer_is_that_of_the_actor_of_the_request() {
        let answer = |text: &str| Payload::new(text).unwrap();
        assert!(is_by(&answer(r#" {"choice":1,"by":"bob","note":null}"#), "bob"));
        for other in
            [r#"{"choice":1,"by":"eve"}"#, r#"{"choice":1}"#, r#"[1,"bob",null]"#, r#"{"choice":1,"by":"bob","at":1}"#]
        {
            assert!(!is_by(&answer(other), "bob"), "{other}");
        }
        let decided = decided_by(&answer(r#"{"choice":12345678901234567890123,"\u0062y":"eve"}"#), "bob").unwrap();
        assert_eq!(decided.as_str(), r#"{"by":"bob","choice":12345678901234567890123}"#);
        for (payload, may) in [(r#"{"choice":1}"#, true), ("[1]", true), (r#"{"n":1}"#, false), ("7", false)] {
            assert_eq!(may_decide(&answer(payload)), may, "{payload}");
        }
        assert_eq!(decided_by(&answer("[1]"), "bob").unwrap_err().code, OperateErrorCode::BadInput);
    }

    #[test]
    fn an_input_that_is_no_object_is_refused() {
        for text in ["null", "7", r#"[{},"d","n","","eve"]"#] {
            let error = acting_for(&Payload::new(text).unwrap(), "bob").unwrap_err();
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
