//! Changes as forms: each says what it will do, and asks why.

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
    let known = [("second", Duration::from_secs(1)), ("minute", MINUTE), ("hour", 60 * MINUTE)];
    let other = (!known.iter().any(|(_, known)| *known == period)).then_some(period);
    html! {
        (self::number(label, &format!("{of}rate"), number))
        label {
            "per"
            select name=(format!("{of}period")) {
                @for (word, known) in known {
                    option value=(known.as_micros()) selected[known == period] { (word) }
                }
                @if let Some(other) = other { option value=(other.as_micros()) selected { (format!("{other:?}")) } }
            }
        }
        label {
            "At once after a rest"
            input type="number" min="1" name=(format!("{of}burst")) value=[burst] placeholder="1";
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

/// JSON in several lines.
pub(crate) fn json(label: &str, name: &str, value: &str) -> Markup {
    html! { label { (label) textarea.mono name=(name) rows="4" spellcheck="false" { (value) } } }
}
