//! The fields of a form as an action.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use workflow_flows::Answer;
use workflow_sdk::operate::{Action, BulkAction, ForkRun, OperateError, Payload, Query, StartBulk, StartRun};
use workflow_sdk::{GateLimits, LimitRule, Priority, QueueLimits, Rate, RunId};

use crate::forms;
use crate::problem::Problem;

/// The most runs that are chosen one by one: those of one page.
const MOST_CHOSEN: usize = 100;

/// Reads the ids of runs that were chosen one by one.
pub(crate) fn chosen<'a>(ids: impl Iterator<Item = &'a str>) -> Result<Vec<RunId>, Problem> {
    let runs: Result<Vec<RunId>, _> = ids.take(MOST_CHOSEN + 1).map(str::parse).collect();
    let runs = runs.map_err(|_| Problem::bad_input("One of the ids is not that of a run.", "Choose the runs anew."))?;
    if runs.len() > MOST_CHOSEN {
        let message = format!("More than {MOST_CHOSEN} runs are chosen.");
        return Err(Problem::bad_input(message, "Change all runs that a search finds instead."));
    }
    Ok(runs)
}

fn missing(name: &str) -> Problem {
    Problem::bad_input(format!("The field {name} is empty."), "Go back, and fill it in.")
}

/// The fields of a form, by name. An empty field counts as absent.
#[derive(Debug)]
pub(crate) struct Fields(pub(crate) HashMap<String, String>);

impl Fields {
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|text| text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(crate) fn required(&self, name: &str) -> Result<String, Problem> {
        self.text(name).ok_or_else(|| missing(name))
    }

    /// Returns a name as a page has filled it in, also with spaces at its ends.
    pub(crate) fn name(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|text| !text.is_empty()).cloned()
    }

    pub(crate) fn required_name(&self, name: &str) -> Result<String, Problem> {
        self.name(name).ok_or_else(|| missing(name))
    }

    fn run(&self) -> Result<RunId, Problem> {
        let text = self.required("run")?;
        text.parse().map_err(|_| Problem::bad_input(format!("{text} is no id of a run."), "Open the run anew."))
    }

    fn number(&self, name: &str) -> Result<Option<u32>, Problem> {
        let refused = |_| Problem::bad_input(format!("The field {name} is no number."), "Write a number from 0 on.");
        self.text(name).map(|text| text.parse().map_err(refused)).transpose()
    }

    fn priority(&self) -> Result<Priority, Problem> {
        let name = self.required("priority")?;
        let known = Priority::ALL.into_iter().find(|priority| forms::word_of(*priority) == name);
        known.ok_or_else(|| Problem::bad_input(format!("No priority is called {name}."), "Choose one of the form."))
    }

    /// Reads JSON. An absent value is `null`.
    fn payload(&self, name: &str) -> Result<Payload, Problem> {
        Ok(Payload::new(self.text(name).unwrap_or_else(|| "null".to_owned()))?)
    }

    /// Reads a rate from the fields of [`forms::rate`] whose names begin with `of`.
    fn rate(&self, of: &str) -> Result<Option<Rate>, Problem> {
        let Some(number) = self.number(&format!("{of}rate"))? else { return Ok(None) };
        let period = match self.text(&format!("{of}period")) {
            None => forms::MINUTE,
            Some(micros) => Duration::from_micros(micros.parse().map_err(|_| {
                Problem::bad_input(format!("No period is called {micros}."), "Choose one of the form.")
            })?),
        };
        let rate = Rate::per(period, number).burst(self.number(&format!("{of}burst"))?.unwrap_or(1));
        rate.check().map_err(|error| Problem::bad_input(error.to_string(), "Choose another rate."))?;
        Ok(Some(rate))
    }

    /// Reads the fields of [`forms::deadline`], in milliseconds.
    fn deadline_ms(&self) -> Result<Option<u64>, Problem> {
        let Some(number) = self.number("deadline")? else { return Ok(None) };
        let name = self.required("deadline_unit")?;
        let unit = forms::UNITS.into_iter().find(|(known, _)| *known == name);
        let refused = || Problem::bad_input(format!("No unit is called {name}."), "Choose one of the form.");
        let (_, millis) = unit.ok_or_else(refused)?;
        Ok(Some(u64::from(number) * millis))
    }

    fn queue_limits(&self) -> Result<QueueLimits, Problem> {
        let (mut limits, mut gate) = (QueueLimits::none(), GateLimits::none());
        (limits.concurrency, limits.rate) = (self.number("concurrency")?, self.rate("")?);
        limits.max_waiting = self.number("max_waiting")?;
        (gate.concurrency, gate.rate) = (self.number("gate_concurrency")?, self.rate("gate_")?);
        gate.max_waiting = self.number("gate_max_waiting")?;
        Ok(limits.per_gate(gate))
    }

    fn rule(&self) -> Result<LimitRule, Problem> {
        let mut rule = LimitRule::none();
        (rule.concurrency, rule.rate) = (self.number("concurrency")?, self.rate("")?);
        Ok(rule)
    }

    fn start(&self) -> Result<StartRun, Problem> {
        let mut start = StartRun::new(self.required_name("workflow")?, self.payload("input")?);
        (start.key, start.queue, start.version) = (self.text("key"), self.name("queue"), self.name("version"));
        for line in self.text("tags").unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
            let Some((name, value)) = line.split_once('=') else {
                let message = format!("The tag {line:?} has no value.");
                return Err(Problem::bad_input(message, "Write one tag per line, as customer=42."));
            };
            start.tags.insert(name.trim().to_owned(), value.trim().to_owned());
        }
        Ok(start)
    }

    fn fork(&self) -> Result<ForkRun, Problem> {
        let mut fork = ForkRun::new(self.run()?);
        (fork.from, fork.version) = (self.name("step"), self.text("version"));
        fork.input = self.text("input").map(Payload::new).transpose()?;
        Ok(fork)
    }

    /// Returns the run, the step and the answer of a decision: one of its options, or JSON.
    pub(crate) fn choice(&self) -> Result<(RunId, String, Answer), Problem> {
        let mut answer = Answer::default();
        // The name of an option is as it was offered, also with spaces at its ends.
        let choice = match self.json("value")?.or_else(|| self.name("choice").map(Value::from)) {
            Some(choice) => choice,
            None => Value::String(self.required("choice")?),
        };
        (answer.choice, answer.note) = (Some(choice), self.text("note"));
        Ok((self.run()?, self.required_name("step")?, answer))
    }

    /// Returns the JSON of a field.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Value>, Problem> {
        let refused = |error: serde_json::Error| {
            let help = "Write JSON: a text stands in quotes.";
            Problem::bad_input(format!("The field {name} is not JSON: {error}."), help)
        };
        self.text(name).map(|text| serde_json::from_str(&text).map_err(refused)).transpose()
    }

    /// Returns the action of the field `apply` on each of many runs.
    pub(crate) fn apply(&self) -> Result<BulkAction, Problem> {
        let name = self.required("apply")?;
        Ok(match name.as_str() {
            "cancel_run" => BulkAction::CancelRun,
            "terminate_run" => BulkAction::TerminateRun,
            "pause_run" => BulkAction::PauseRun,
            "resume_run" => BulkAction::ResumeRun,
            "set_priority" => BulkAction::SetPriority { priority: self.priority()? },
            "move_to" => BulkAction::MoveTo { queue: self.required("queue")? },
            "retry_run" => BulkAction::RetryRun { deadline_ms: self.deadline_ms()? },
            "fork_run" => BulkAction::ForkRun { from: None, version: self.text("version"), queue: None },
            "delete_run" => BulkAction::DeleteRun,
            _ => return Err(Problem::bad_input(format!("No action is called {name}."), "Use the forms of the pages.")),
        })
    }

    /// Returns the runs of the field `runs`, with spaces between them.
    pub(crate) fn runs(&self) -> Result<Vec<RunId>, Problem> {
        chosen(self.required("runs")?.split_whitespace())
    }

    /// A query that is missing is refused: an empty one means every run.
    fn bulk(&self) -> Result<StartBulk, Problem> {
        let Some(text) = self.0.get("q") else {
            return Err(Problem::bad_input("The search is missing.", "Use the forms of the pages."));
        };
        let query: Query = text.parse().map_err(|error| Problem::from(OperateError::from(error)))?;
        Ok(StartBulk::new(query, self.apply()?))
    }

    /// Returns the action that the field `action` names.
    pub(crate) fn action(&self) -> Result<Action, Problem> {
        let name = self.required("action")?;
        Ok(match name.as_str() {
            "start_run" => Action::StartRun(Box::new(self.start()?)),
            "fork_run" => Action::ForkRun(Box::new(self.fork()?)),
            "cancel_run" => Action::CancelRun { run: self.run()?, only_ask: self.0.contains_key("only_ask") },
            "terminate_run" => Action::TerminateRun { run: self.run()? },
            "pause_run" => Action::PauseRun { run: self.run()? },
            "resume_run" => Action::ResumeRun { run: self.run()? },
            "retry_run" => Action::RetryRun { run: self.run()?, deadline_ms: self.deadline_ms()? },
            "set_priority" => Action::SetPriority { run: self.run()?, priority: self.priority()? },
            "move_to" => Action::MoveTo { run: self.run()?, queue: self.required("queue")? },
            "delete_run" => Action::DeleteRun { run: self.run()? },
            "start_bulk" => Action::StartBulk(Box::new(self.bulk()?)),
            "stop_bulk" => {
                let refused = |_| Problem::bad_input("This is no id of a bulk operation.", "Open it anew.");
                Action::StopBulk { bulk: self.required("bulk")?.parse().map_err(refused)? }
            }
            "signal_run" => {
                let (name, payload) = (self.required("name")?, self.payload("payload")?);
                Action::SignalRun { run: self.run()?, name, payload, key: self.text("key") }
            }
            "approve" | "reject" => {
                let (run, step, approve) = (self.run()?, self.required_name("step")?, name == "approve");
                Action::DecideApproval { run, step, approve, note: self.text("note") }
            }
            "pause_queue" => Action::PauseQueue { queue: self.required_name("queue")? },
            "resume_queue" => Action::ResumeQueue { queue: self.required_name("queue")? },
            "set_queue_limits" => {
                Action::SetQueueLimits { queue: self.required_name("queue")?, limits: self.queue_limits()? }
            }
            "clear_queue_limits" => Action::ClearQueueLimits { queue: self.required_name("queue")? },
            "weigh_gate" => {
                let weight = self.number("weight")?.unwrap_or(1);
                Action::WeighGate { queue: self.required_name("queue")?, gate: self.required_name("gate")?, weight }
            }
            "set_limit" => Action::SetLimit { limit: self.required_name("limit")?, rule: self.rule()? },
            "clear_limit" => Action::ClearLimit { limit: self.required_name("limit")? },
            "pause_schedule" => Action::PauseSchedule { schedule: self.required_name("schedule")? },
            "resume_schedule" => Action::ResumeSchedule { schedule: self.required_name("schedule")? },
            "trigger_schedule" => Action::TriggerSchedule { schedule: self.required_name("schedule")?, input: None },
            "revert_schedule" => Action::RevertSchedule { schedule: self.required_name("schedule")? },
            "delete_schedule" => Action::DeleteSchedule { schedule: self.required_name("schedule")? },
            _ => {
                return Err(Problem::bad_input(format!("No action is called {name}."), "Use the forms of the pages."));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn fields(of: &[(&str, &str)]) -> Fields {
        Fields(of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_start_keeps_every_digit_and_reads_tags_line_by_line() {
        let form = fields(&[
            ("action", "start_run"),
            ("workflow", "checkout"),
            ("input", "[12345678901234567890.10]"),
            ("key", ""),
            ("tags", "customer=42\n\nregion = eu "),
        ]);
        let Action::StartRun(start) = form.action().unwrap() else { panic!("another action") };
        assert_eq!(start.input.as_str(), "[12345678901234567890.10]");
        assert_eq!((start.key.as_deref(), start.tags.len()), (None, 2));
        assert_eq!(start.tags["region"], "eu");
    }

    #[test]
    fn many_runs_get_a_priority_or_another_queue() {
        for priority in Priority::ALL {
            let name = forms::word_of(priority);
            let form = fields(&[("action", "start_bulk"), ("q", ""), ("apply", "set_priority"), ("priority", name)]);
            let Action::StartBulk(start) = form.action().unwrap() else { panic!("another action") };
            assert_eq!(start.apply, BulkAction::SetPriority { priority });
        }
        let form = fields(&[("apply", "move_to"), ("queue", " night imports ")]);
        assert_eq!(form.apply().unwrap(), BulkAction::MoveTo { queue: "night imports".to_owned() });
    }

    #[test]
    fn names_that_a_page_has_filled_in_keep_their_spaces() {
        let names = [("queue", " q "), ("gate", " g "), ("limit", " l "), ("schedule", " s "), ("workflow", " w ")];
        for (action, target) in [
            ("pause_queue", "queue: q "),
            ("resume_queue", "queue: q "),
            ("set_queue_limits", "queue: q "),
            ("clear_queue_limits", "queue: q "),
            ("weigh_gate", "gate: q / g "),
            ("set_limit", "limit: l "),
            ("clear_limit", "limit: l "),
            ("pause_schedule", "schedule: s "),
            ("resume_schedule", "schedule: s "),
            ("trigger_schedule", "schedule: s "),
            ("revert_schedule", "schedule: s "),
            ("delete_schedule", "schedule: s "),
            ("start_run", "workflow: w "),
        ] {
            let form = [&names[..], &[("action", action)]].concat();
            assert_eq!(fields(&form).action().unwrap().target(), target, "{action}");
        }
        let run = ("run", "01a2179e-6563-77f9-814a-e7a8f1ed3d63");
        let form = fields(&[("action", "fork_run"), run, ("step", "charge ")]);
        let Action::ForkRun(fork) = form.action().unwrap() else { panic!("another action") };
        assert_eq!(fork.from.as_deref(), Some("charge "));
    }

    #[test]
    fn a_retry_takes_a_new_deadline() {
        let run = ("run", "01a2179e-6563-77f9-814a-e7a8f1ed3d63");
        for (number, unit, expected) in
            [("", "hours", None), ("90", "minutes", Some(5_400_000)), ("2", "days", Some(172_800_000))]
        {
            let form = fields(&[
                run,
                ("action", "retry_run"),
                ("apply", "retry_run"),
                ("deadline", number),
                ("deadline_unit", unit),
            ]);
            assert_eq!(form.apply().unwrap(), BulkAction::RetryRun { deadline_ms: expected });
            let Action::RetryRun { deadline_ms, .. } = form.action().unwrap() else { panic!("another action") };
            assert_eq!(deadline_ms, expected);
        }
    }

    #[test]
    fn a_decision_gets_an_option_or_json() {
        let run = ("run", "01a2179e-6563-77f9-814a-e7a8f1ed3d63");
        let option = fields(&[run, ("step", "triage:0"), ("choice", "later"), ("note", "busy")]);
        let (_, step, answer) = option.choice().unwrap();
        assert_eq!(
            (step.as_str(), answer.choice, answer.note.as_deref()),
            ("triage:0", Some("later".into()), Some("busy"))
        );
        let spaced = fields(&[run, ("step", "triage"), ("choice", "yes ")]);
        assert_eq!(spaced.choice().unwrap().2.choice, Some("yes ".into()));
        let json = fields(&[run, ("step", "triage"), ("value", r#"{"days":3}"#)]);
        assert_eq!(json.choice().unwrap().2.choice, Some(serde_json::json!({ "days": 3 })));
        for form in [&[run, ("step", "triage")][..], &[run, ("choice", "x")], &[run, ("step", "t"), ("value", "{")]] {
            assert_eq!(fields(form).choice().unwrap_err().status.as_u16(), 400, "{form:?}");
        }
    }

    #[test]
    fn forms_that_are_incomplete_are_refused() {
        for form in [
            &[][..],
            &[("action", "explode")],
            &[("action", "cancel_run")],
            &[("action", "cancel_run"), ("run", "x")],
            &[("action", "start_run"), ("workflow", "w"), ("input", "{")],
            &[("action", "start_run"), ("workflow", "w"), ("tags", "x")],
            &[("action", "set_limit"), ("limit", "llm"), ("concurrency", "-1")],
            &[("action", "set_limit"), ("limit", "llm"), ("rate", "0")],
            &[("action", "start_bulk"), ("apply", "cancel_run")],
            &[("action", "start_bulk"), ("apply", "explode"), ("q", "")],
            &[("action", "start_bulk"), ("apply", "cancel_run"), ("q", "status:faild")],
            &[("action", "start_bulk"), ("apply", "retry_run"), ("deadline", "soon"), ("q", "")],
            &[("action", "start_bulk"), ("apply", "retry_run"), ("deadline", "1"), ("deadline_unit", "y"), ("q", "")],
            &[("action", "start_bulk"), ("apply", "set_priority"), ("q", "is:open")],
            &[("action", "start_bulk"), ("apply", "set_priority"), ("priority", "huge"), ("q", "is:open")],
            &[("action", "start_bulk"), ("apply", "move_to"), ("q", "is:open")],
            &[("action", "start_bulk"), ("apply", "move_to"), ("queue", "  "), ("q", "is:open")],
            &[("action", "stop_bulk"), ("bulk", "x")],
        ] {
            let status = fields(form).action().unwrap_err().status;
            assert_eq!(status.as_u16(), 400, "{form:?}");
        }
    }
}
