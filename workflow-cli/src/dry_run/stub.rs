//! Stubs: what answers in a dry run in the place of tools, models, people, events and other runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use workflow_flows::{ErrorClass, ToolError, parse_duration};

/// The stubs of a dry run, or of one case of a flow's tests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stubs {
    /// Answers of tools, by the name of the tool.
    tools: BTreeMap<String, Answers>,
    /// Answers of steps, by the id of the step or by the key of its record. They go before those of
    /// tools. They also stand for people, events, models and other runs.
    steps: BTreeMap<String, Answers>,
}

/// Answers that are given in their order. The last one is given again and again.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Answers(Vec<Answer>);

/// One answer: a result, an error, or none at all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Answer {
    result: Value,
    error: Option<AnswerError>,
    /// The virtual time that passes before the answer.
    after: Option<String>,
    /// No answer comes, so a limit of time ends the step.
    never: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerError {
    class: ErrorClass,
    #[serde(default)]
    message: String,
}

impl TryFrom<Value> for Answers {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let list = match value {
            Value::Array(items) if items.is_empty() => return Err("a list of answers is empty".to_owned()),
            Value::Array(items) => items,
            one => vec![one],
        };
        list.into_iter().map(read_answer).collect::<Result<_, _>>().map(Self)
    }
}

fn read_answer(value: Value) -> Result<Answer, String> {
    if !value.is_object() {
        return Err(format!("{value} is not an answer; write {{ result: {value} }}"));
    }
    let has_result = value.get("result").is_some();
    let answer: Answer = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if [has_result, answer.error.is_some(), answer.never].into_iter().filter(|given| *given).count() != 1 {
        return Err("an answer has one of result, error and never".to_owned());
    }
    if let Some(after) = &answer.after {
        parse_duration(after).map_err(|error| format!("after: {after:?}: {error}"))?;
    }
    Ok(answer)
}

impl Answer {
    /// Creates an answer that gives this result at once.
    pub(crate) fn of(result: Value) -> Self {
        Self { result, ..Self::default() }
    }

    /// Returns the virtual time before the answer. `None`: no answer comes.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let after = self.after.as_deref().map(parse_duration);
        (!self.never).then(|| after.and_then(Result::ok).unwrap_or_default())
    }

    /// Returns the result, or the error of a tool.
    pub(crate) fn outcome(&self) -> Result<Value, ToolError> {
        match &self.error {
            Some(AnswerError { class, message }) => Err(ToolError::new(*class, message.clone())),
            None => Ok(self.result.clone()),
        }
    }
}

impl Stubs {
    /// Returns the answer to the call with this number, from 0, of a step.
    pub(crate) fn of_step(&self, key: &str, number: usize) -> Option<&Answer> {
        let answers = self.steps.get(key).or_else(|| self.steps.get(step_id(key)))?;
        answers.at(number)
    }

    /// Returns the answer to the call with this number, from 0, of a tool.
    pub(crate) fn of_tool(&self, name: &str, number: usize) -> Option<&Answer> {
        self.tools.get(name)?.at(number)
    }
}

impl Answers {
    fn at(&self, number: usize) -> Option<&Answer> {
        self.0.get(number).or_else(|| self.0.last())
    }
}

/// Returns the id of the step in the key of a record: `each/3/hash:1` belongs to `hash`.
pub(crate) fn step_id(key: &str) -> &str {
    let last = key.rsplit('/').next().unwrap_or(key);
    last.split([':', '~', '!', '?', '=']).next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(stubs: Value) -> Result<Stubs, String> {
        serde_json::from_value(stubs).map_err(|error| error.to_string())
    }

    #[test]
    fn answers_are_given_in_order_and_the_last_one_repeats() {
        let stubs = read(json!({
            "tools": { "http": { "result": 1 } },
            "steps": { "hash": [{ "error": { "class": "timeout" } }, { "result": 2 }], "each/3/hash": { "result": 3 } },
        }))
        .unwrap();
        let of_step = |key, number| stubs.of_step(key, number).map(Answer::outcome);
        assert_eq!(of_step("hash", 0), Some(Err(ToolError::new(ErrorClass::Timeout, ""))));
        assert_eq!(of_step("each/0/hash:1", 7), Some(Ok(json!(2))));
        assert_eq!(of_step("each/3/hash", 0), Some(Ok(json!(3))));
        assert_eq!(of_step("other", 0), None);
        assert_eq!(stubs.of_tool("http", 9).map(Answer::outcome), Some(Ok(json!(1))));
    }

    #[test]
    fn stubs_that_mean_nothing_are_refused() {
        for (stubs, part) in [
            (json!({ "tool": {} }), "unknown field `tool`"),
            (json!({ "tools": { "a": [] } }), "empty"),
            (json!({ "tools": { "a": 7 } }), "write { result: 7 }"),
            (json!({ "tools": { "a": {} } }), "one of result, error and never"),
            (json!({ "tools": { "a": { "result": 1, "never": true } } }), "one of result, error and never"),
            (json!({ "tools": { "a": { "error": { "class": "bad" } } } }), "unknown variant `bad`"),
            (json!({ "steps": { "a": { "result": 1, "after": "soon" } } }), "after: \"soon\""),
        ] {
            let error = read(stubs.clone()).unwrap_err();
            assert!(error.contains(part), "{stubs}: {error}");
        }
    }
}
