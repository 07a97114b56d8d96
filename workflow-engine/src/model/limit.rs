use serde::{Deserialize, Serialize};

use super::{InvalidRate, Rate, Timestamp, unquoted};

/// The rule of a limit for steps. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct LimitRule {
    /// The largest number of bodies of steps that run at once per key, over all workers of the
    /// database. `None`: any number; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many bodies of steps may begin in a period per key, over all workers of the database.
    /// `None`: any number. Each attempt of a step counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl LimitRule {
    /// Lets any number of bodies run.
    #[must_use]
    pub const fn none() -> Self {
        Self { concurrency: None, rate: None }
    }

    /// Sets the [`concurrency`](LimitRule::concurrency).
    #[must_use]
    pub const fn concurrency(self, bodies: u32) -> Self {
        Self { concurrency: Some(bodies), ..self }
    }

    /// Sets the [`rate`](LimitRule::rate).
    #[must_use]
    pub const fn rate(self, rate: Rate) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// Checks the rate.
    ///
    /// # Errors
    /// [`InvalidRate`], which says what is out of range.
    pub fn check(self) -> Result<(), InvalidRate> {
        self.rate.map_or(Ok(()), Rate::check)
    }
}

/// A limit for steps that was declared or set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitRecord {
    /// The name of the limit.
    pub name: String,
    /// The rule that was declared last: by a worker that started, or for a flow. `None`: none was
    /// declared.
    pub declared: Option<LimitRule>,
    /// The rule that an operator has set. It holds in place of the declared one until it is
    /// cleared.
    pub overridden: Option<LimitRule>,
    /// Why the stored rules are not understood: a later release wrote them, or the row is damaged.
    /// Until the rule is set again, no body begins.
    pub not_understood: Option<String>,
}

impl LimitRecord {
    /// Returns a limit without a rule. For the stores.
    #[doc(hidden)]
    #[must_use]
    pub fn new(name: String) -> Self {
        Self { name, declared: None, overridden: None, not_understood: None }
    }

    /// Returns a limit from its row. For the stores.
    #[doc(hidden)]
    #[must_use]
    pub fn stored(name: String, declared: Option<&str>, overridden: Option<&str>) -> Self {
        let rule = |text: &str| {
            let rule = serde_json::from_str::<LimitRule>(text).map_err(|error| unquoted(error).to_string())?;
            rule.check().map(|()| rule).map_err(|error| error.to_string())
        };
        match (declared.map(rule).transpose(), overridden.map(rule).transpose()) {
            (Ok(declared), Ok(overridden)) => Self { name, declared, overridden, not_understood: None },
            (Err(why), _) | (_, Err(why)) => Self { not_understood: Some(why), ..Self::new(name) },
        }
    }

    /// Returns the rule that holds; `None` if the limit is neither declared nor set.
    #[must_use]
    pub fn rule(&self) -> Option<LimitRule> {
        match self.not_understood {
            Some(_) => Some(LimitRule::none().concurrency(0)),
            None => self.overridden.or(self.declared),
        }
    }

    /// Applies a change.
    #[doc(hidden)]
    pub fn apply(&mut self, change: &LimitChange) {
        match change {
            LimitChange::Declare(rule) => self.declared = Some(*rule),
            LimitChange::Override(rule) => self.overridden = *rule,
        }
    }
}

/// A change of a limit's record.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitChange {
    /// The rule is declared: by a worker that starts, or for a flow that is deployed or started.
    Declare(LimitRule),
    /// An operator sets the rule, or clears it.
    Override(Option<LimitRule>),
}

/// The steps that share the seats of one limit and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeatLine {
    /// The name of the limit.
    pub limit: String,
    /// The key that the steps name.
    pub key: String,
}

/// A step that waits for a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatWait {
    /// The key of the step.
    pub step_key: String,
    /// The line in which it waits.
    pub line: SeatLine,
    /// Since when it waits. Lines are served in this order.
    pub asked_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_an_operator_sets_holds_until_it_is_cleared() {
        let rule = |bodies| LimitRule::none().concurrency(bodies);
        let mut limit = LimitRecord::new("llm".into());
        assert_eq!(limit.rule(), None);
        limit.apply(&LimitChange::Declare(rule(5)));
        assert_eq!(limit.rule(), Some(rule(5)));
        limit.apply(&LimitChange::Override(Some(LimitRule::none())));
        assert_eq!(limit.rule(), Some(LimitRule::none()));
        limit.apply(&LimitChange::Declare(rule(6)));
        limit.apply(&LimitChange::Override(None));
        assert_eq!(limit.rule(), Some(rule(6)));
    }

    #[test]
    fn a_rule_that_is_not_understood_lets_nothing_begin() {
        let rate = r#"{"rate":{"runs":0,"period":1000000,"burst":1}}"#;
        for text in [r#"{"concurrency":-1}"#, r#"{"rate":60}"#, rate] {
            let limit = LimitRecord::stored("llm".into(), Some(text), None);
            assert!(limit.not_understood.is_some(), "{text}");
            assert_eq!(limit.rule(), Some(LimitRule::none().concurrency(0)));
        }
    }

    #[test]
    fn rules_are_stored_as_they_are_written() {
        let text = |rule: LimitRule| serde_json::to_string(&rule).unwrap();
        let seats = LimitRule::none().concurrency(2);
        let rate = Rate::per_minute(60).burst(5);
        assert_eq!((text(LimitRule::none()), text(seats)), ("{}".into(), r#"{"concurrency":2}"#.into()));
        for rule in [LimitRule::none(), seats, LimitRule::none().rate(rate), seats.rate(rate)] {
            let stored = LimitRecord::stored("llm".into(), Some(&text(rule)), None);
            assert_eq!((stored.rule(), stored.not_understood), (Some(rule), None));
        }
    }
}
