//! Changes as forms: each says what it will do, and asks why.

use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};
use workflow_sdk::operate::Role;
use workflow_sdk::{Priority, Rate};

use crate::icons::Icon;
use crate::visit::Visit;

/// A change that a page offers.
#[derive(Debug)]
pub(crate) struct Offer {
    action: &'static str,
    label: &'static str,
    /// The sentence that says what will happen.
    sentence: String,
    role: Role,
    icon: Option<Icon>,
    is_dangerous: bool,
    needs_reason: bool,
    hidden: Vec<(&'static str, String)>,
    fields: Markup,
    /// The verb of the button that does it. Default: the label.
    verb: Option<&'static str>,
}

impl Offer {
    /// Offers an action under a label.
    pub(crate) fn new(action: &'static str, label: &'static str, role: Role, sentence: impl Into<String>) -> Self {
        Self {
            action,
            label,
            sentence: sentence.into(),
            role,
            icon: None,
            is_dangerous: false,
            needs_reason: false,
            hidden: Vec::new(),
            fields: html! {},
            verb: None,
        }
    }

    pub(crate) fn icon(self, icon: Icon) -> Self {
        Self { icon: Some(icon), ..self }
    }

    pub(crate) fn dangerous(self) -> Self {
        Self { is_dangerous: true, ..self }
    }

    /// Asks for a reason that must not be empty, because it is shown with what was changed.
    pub(crate) fn with_reason(self) -> Self {
        Self { needs_reason: true, ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.hidden.push((name, value.to_string()));
        self
    }

    pub(crate) fn fields(self, fields: Markup) -> Self {
        Self { fields, ..self }
    }

    pub(crate) fn verb(self, verb: &'static str) -> Self {
        Self { verb: Some(verb), ..self }
    }

    pub(crate) fn label(&self) -> &'static str {
        self.label
    }

    /// Returns `true` if the visitor may do it.
    pub(crate) fn is_open_to(&self, visit: &Visit) -> bool {
        visit.may(self.role)
    }

    /// Draws the offer as a button that opens its form. Nothing for an actor that may not do it.
    pub(crate) fn draw(&self, visit: &Visit) -> Markup {
        if !visit.may(self.role) {
            return html! {};
        }
        html! {
            details.act {
                summary.btn.danger[self.is_dangerous] {
                    @if let Some(icon) = self.icon { (icon.draw()) }
                    (self.label)
                }
                div.pop { (self.form(visit)) }
            }
        }
    }

    /// Draws the form itself.
    pub(crate) fn form(&self, visit: &Visit) -> Markup {
        if !visit.may(self.role) {
            return html! {};
        }
        html! {
            form.order method="post" action=(visit.link("/orders")) {
                input type="hidden" name="token" value=(visit.token);
                input type="hidden" name="back" value=(visit.inner());
                input type="hidden" name="action" value=(self.action);
                @for (name, value) in &self.hidden { input type="hidden" name=(name) value=(value); }
                p { (self.sentence) }
                (self.fields)
                label {
                    "Reason"
                    input name="reason" maxlength="200" placeholder="for the audit log" autocomplete="off" required[self.needs_reason];
                }
                p.acts { button.btn.primary.danger[self.is_dangerous] { (self.verb.unwrap_or(self.label)) } }
            }
        }
    }
}

/// A line of text.
pub(crate) fn line(label: &str, name: &str, value: &str, placeholder: &str) -> Markup {
    html! { label { (label) input name=(name) value=(value) placeholder=(placeholder) autocomplete="off"; } }
}

/// A line of text that must not be empty.
pub(crate) fn required(label: &str, name: &str, value: &str, placeholder: &str) -> Markup {
    html! { label { (label) input name=(name) value=(value) placeholder=(placeholder) autocomplete="off" required; } }
}

/// A number that may be left out.
pub(crate) fn number(label: &str, name: &str, value: Option<u32>) -> Markup {
    html! { label { (label) input type="number" min="0" name=(name) value=[value] placeholder="no limit"; } }
}

/// The period of a rate, unless another one is chosen.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A rate that may be left out, in fields whose names begin with `of`. It shows the present one
/// with its burst, so that a form which changes something else keeps it.
pub(crate) fn rate(label: &str, of: &str, rate: Option<Rate>) -> Markup {
    let (number, period, burst) = rate.map_or((None, MINUTE, None), |rate| {
        let (number, period, burst) = rate.parts();
        (Some(number), period, Some(burst))
    });
    html! {
        (self::number(label, &format!("{of}rate"), number))
        (periods(&format!("{of}period"), period))
        label {
            "At once after a rest"
            input type="number" min="1" name=(format!("{of}burst")) value=[burst] placeholder="1";
        }
    }
}

/// A choice among the periods of a rate.
fn periods(name: &str, period: Duration) -> Markup {
    let known = [("second", Duration::from_secs(1)), ("minute", MINUTE), ("hour", 60 * MINUTE)];
    let other = (!known.iter().any(|(_, known)| *known == period)).then_some(period);
    html! {
        label {
            "per"
            select name=(name) {
                @for (word, known) in known {
                    option value=(known.as_micros()) selected[known == period] { (word) }
                }
                @if let Some(other) = other { option value=(other.as_micros()) selected { (format!("{other:?}")) } }
            }
        }
    }
}

/// The units of a deadline, each with its milliseconds.
pub(crate) const UNITS: [(&str, u64); 3] = [("minutes", 60_000), ("hours", 3_600_000), ("days", 86_400_000)];

/// A new deadline, as a number and its unit.
pub(crate) fn deadline(is_required: bool) -> Markup {
    html! {
        label {
            "New deadline, from now on"
            input type="number" min="1" name="deadline" placeholder=[(!is_required).then_some("as it is")]
                required[is_required];
        }
        (units("hours"))
    }
}

/// A choice among the units of a deadline.
fn units(chosen: &str) -> Markup {
    html! {
        label {
            "in"
            select name="deadline_unit" { @for (unit, _) in UNITS {
                option value=(unit) selected[unit == chosen] { (unit) }
            } }
        }
    }
}

/// A choice among the priorities.
pub(crate) fn priorities(chosen: Priority) -> Markup {
    html! {
        label {
            "Priority"
            select name="priority" { @for priority in Priority::ALL {
                option value=(word_of(priority)) selected[priority == chosen] { (word_of(priority)) }
            } }
        }
    }
}

/// Returns the name of a priority.
pub(crate) fn word_of(priority: Priority) -> &'static str {
    match priority {
        Priority::Urgent => "urgent",
        Priority::High => "high",
        Priority::Low => "low",
        _ => "normal",
    }
}

/// The fields that a person fills in, in the order of the forms, each with its label.
const FILLED: [(&str, &str); 25] = [
    ("name", "Name"),
    ("choice", "Choice"),
    ("value", "Answer, as JSON"),
    ("payload", "Value, as JSON"),
    ("input", "Input, as JSON"),
    ("version", "Version"),
    ("queue", "Queue"),
    ("key", "Key"),
    ("tags", "Tags, one per line"),
    ("deadline", "New deadline, from now on"),
    ("deadline_unit", "in"),
    ("priority", "Priority"),
    ("concurrency", "At once"),
    ("max_waiting", "Runs that may wait"),
    ("rate", "May begin"),
    ("period", "per"),
    ("burst", "At once after a rest"),
    ("gate_concurrency", "At once behind each gate"),
    ("gate_max_waiting", "Runs that may wait behind each gate"),
    ("gate_rate", "May begin behind each gate"),
    ("gate_period", "per"),
    ("gate_burst", "At once after a rest, behind each gate"),
    ("weight", "Weight, 1 to 1000"),
    ("note", "Note, which the run receives"),
    ("reason", "Reason"),
];

/// Returns the name of the action of a form. For many runs, it is the action on each of them.
pub(crate) fn action_of(fields: &BTreeMap<String, String>) -> &str {
    let of = |name: &str| fields.get(name).map_or("", |text| text.trim());
    match of("action") {
        "each_run" | "start_bulk" => of("apply"),
        action => action,
    }
}

/// Draws a form that was sent and refused. What a person filled in can be changed; the other fields
/// are repeated as they were.
pub(crate) fn again(visit: &Visit, sent: &BTreeMap<String, String>) -> Markup {
    let action = action_of(sent);
    // A page fills in the version of a start, and the queue of all but a move.
    let is_filled = |name: &str| match name {
        "version" => action == "fork_run",
        "queue" => action == "move_to",
        _ => FILLED.iter().any(|(known, _)| *known == name),
    };
    let fixed = || sent.iter().filter(|(name, _)| !is_filled(name) && *name != "token");
    let about = fixed().filter(|(name, _)| !matches!(name.as_str(), "action" | "back"));
    let about: String = about.map(|(name, value)| format!(" · {name} {value}")).collect();
    let filled = FILLED.iter().filter(|(name, _)| is_filled(name));
    html! {
        section.sent {
            h2 { "Your form" }
            p.mono.faint.cut-off { (sent.get("action").map_or("", String::as_str)) (about) }
            form.order method="post" action=(visit.link("/orders")) {
                input type="hidden" name="token" value=(visit.token);
                @for (name, value) in fixed() { input type="hidden" name=(name) value=(value); }
                @for (name, label) in filled {
                    @if let Some(value) = sent.get(*name) { (field(label, name, value)) }
                }
                p.acts { button.btn.primary { "Send again" } }
            }
        }
    }
}

/// Draws a field with the value that was sent in it.
fn field(label: &str, name: &str, value: &str) -> Markup {
    match name {
        "priority" => {
            let priority = Priority::ALL.into_iter().find(|priority| word_of(*priority) == value);
            priorities(priority.unwrap_or_default())
        }
        "period" | "gate_period" => periods(name, value.parse().map_or(MINUTE, Duration::from_micros)),
        "deadline_unit" => units(value),
        "input" | "payload" | "tags" | "value" => json(label, name, value),
        // A field of one line would lose the others.
        _ if value.contains(['\n', '\r']) => json(label, name, value),
        _ => line(label, name, value, ""),
    }
}

/// JSON in several lines.
pub(crate) fn json(label: &str, name: &str, value: &str) -> Markup {
    html! { label { (label) textarea.mono name=(name) rows="4" spellcheck="false" { (value) } } }
}
