//! The output of a benchmark: a table for people, or one line of JSON for programs.

use serde_json::{Map, Value, json};

use crate::database::Kind;

/// The figures of one run of a benchmark.
#[derive(Debug)]
pub(crate) struct Report {
    bench: &'static str,
    database: Kind,
    settings: Vec<(&'static str, Value)>,
    figures: Vec<Figure>,
}

#[derive(Debug)]
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    target: Option<Target>,
}

/// The target of a figure. `docs/guide/performance.md` lists all targets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl Report {
    pub(crate) fn new(bench: &'static str, database: Kind) -> Self {
        Self { bench, database, settings: Vec::new(), figures: Vec::new() }
    }

    /// Adds a setting that the figures depend on.
    pub(crate) fn setting(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.settings.push((name, value.into()));
        self
    }

    /// Adds a figure without a target.
    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Figure { name: name.into(), value, unit, target: None });
    }

    /// Adds a figure with a target.
    pub(crate) fn judged(&mut self, name: impl Into<String>, value: f64, unit: &'static str, target: Target) {
        self.figures.push(Figure { name: name.into(), value, unit, target: Some(target) });
    }

    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
        } else {
            self.print_table();
        }
    }

    fn database(&self) -> &'static str {
        match self.database {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
        }
    }

    fn json(&self) -> Value {
        let mut line = Map::new();
        line.insert("bench".into(), self.bench.into());
        line.insert("database".into(), self.database().into());
        line.extend(self.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let figures = self.figures.iter().map(|figure| {
            let mut value = json!({ "value": figure.value, "unit": figure.unit });
            if let Some(target) = figure.target {
                let (sense, bound) = match target {
                    Target::AtLeast(bound) => ("at_least", bound),
                    Target::AtMost(bound) => ("at_most", bound),
                };
                value[sense] = bound.into();
                value["holds"] = target.holds(figure.value).into();
            }
            (figure.name.clone(), value)
        });
        line.insert("figures".into(), figures.collect::<Map<_, _>>().into());
        line.into()
    }

    fn print_table(&self) {
        let settings: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        println!("{} on {}: {}", self.bench, self.database(), settings.join(", "));
        for Figure { name, value, unit, target } in &self.figures {
            let target = target.map_or_else(String::new, |target| {
                let (sense, bound) = match target {
                    Target::AtLeast(bound) => (">=", bound),
                    Target::AtMost(bound) => ("<=", bound),
                };
                let verdict = if target.holds(*value) { "holds" } else { "MISSED" };
                format!("   target {sense} {bound}: {verdict}")
            });
            println!("  {name:<44} {:>12} {unit:<8}{target}", rounded(*value));
        }
    }
}

/// Formats a value without decimals from 100 on, else with two.
fn rounded(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
