//! Finds out which results an expression may read, so that a step copies these alone.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::graph::{Flow, Kind, Next, Step, Until};

/// The steps and the roots that some expressions mention. It may name too many, never too few.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions {
    /// Whether an expression reads `steps` in another way than by the name of a step.
    all: bool,
    steps: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl Mentions {
    /// Returns what is mentioned in the texts of templates.
    pub(super) fn of<'t>(templates: impl IntoIterator<Item = &'t Value>) -> Self {
        let mut mentions = Self::default();
        for template in templates {
            mentions.add(template);
        }
        mentions
    }

    /// Returns what an expression mentions.
    pub(super) fn of_source(source: &str) -> Self {
        let mut mentions = Self::default();
        mentions.add_text(source);
        mentions
    }

    /// Returns what a jq program mentions. Its input is the whole scope, so a program such as
    /// `to_entries` reads all results. One that begins with a path reads what the path names.
    pub(super) fn of_jq(program: &str) -> Self {
        let mut mentions = Self::default();
        mentions.add_jq(program);
        mentions
    }

    /// Returns what the expressions of a flow mention, at any depth.
    pub(super) fn of_flow(flow: &Flow) -> Self {
        let mut mentions = Self::of(&flow.output);
        flow.for_each_step(|step| mentions.add_step_of_flow(step));
        mentions
    }

    /// Adds what a step mentions, without the steps of its blocks.
    fn add_step_of_flow(&mut self, step: &Step) {
        let undo = step.undo.as_ref().map(|undo| &undo.args);
        step.output.iter().chain(undo).for_each(|template| self.add(template));
        let limit = step.limit.as_ref().map(|limit| &limit.key);
        step.when.iter().chain(limit).for_each(|text| self.add_text(text));
        if let Some(Next::Branch { cases, .. }) = &step.next {
            cases.iter().for_each(|(condition, _)| self.add_text(condition));
        }
        match &step.kind {
            Kind::If { condition, .. } => self.add_text(condition),
            Kind::Switch(switch) => self.add(&switch.value),
            Kind::Loop(repetition) => match &repetition.until {
                Until::For(template) => self.add(template),
                Until::Jq(program) => self.add_jq(program),
                Until::While(condition) | Until::Until(condition) => self.add_text(condition),
            },
            Kind::Parallel(_) => {}
            Kind::Approval(approval) => {
                approval.to.iter().chain([&approval.title]).for_each(|text| self.add_text(text));
                self.add(&approval.show);
            }
            Kind::Jq(program) => self.add_jq(program),
            // Without blocks, so that all texts in it are its own.
            kind => match serde_json::to_value(kind) {
                Ok(texts) => self.add(&texts),
                Err(_) => self.all = true,
            },
        }
    }

    fn add_jq(&mut self, program: &str) {
        self.add_text(program);
        let (path, rest) = program.split_once('|').unwrap_or((program, ""));
        let path = path.trim().replace("[]", "");
        let is_path = path.starts_with('.')
            && path.split('.').skip(1).all(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
            && path.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '?'));
        self.all |= !is_path || rest.starts_with('=');
    }

    pub(super) fn add(&mut self, template: &Value) {
        match template {
            Value::String(text) => self.add_text(text),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(entries) => entries.values().for_each(|value| self.add(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub(super) fn add_text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(is_name) {
            let name = name_at(&rest[at..]);
            rest = &rest[at + name.len()..];
            // In CEL a hyphen subtracts, so `x-steps` may read `steps`.
            for word in name.split('-') {
                self.words.insert(word.to_owned());
            }
            if name.split('-').any(|word| matches!(word, "steps" | "step")) {
                rest = self.add_step(rest);
            }
        }
    }

    /// Adds the step whose name follows `steps`. Returns the text behind it.
    fn add_step<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(name) = step_name(text) else {
            self.all = true;
            return text;
        };
        // A path takes the whole name, CEL takes the part before a hyphen.
        for (at, _) in name.match_indices('-') {
            self.steps.insert(name[..at].to_owned());
        }
        self.steps.insert(name.to_owned());
        &text[1..]
    }

    pub(super) fn step(&self, id: &str) -> bool {
        self.all || self.steps.contains(id)
    }

    /// Returns whether an expression may read this root.
    pub(super) fn root(&self, name: &str) -> bool {
        self.words.contains(name)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn name_at(text: &str) -> &str {
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

/// Returns the name in `.name`, `['name']` or `["name"]` at the beginning of the text.
fn step_name(text: &str) -> Option<&str> {
    let name = match text.strip_prefix('.') {
        Some(rest) => name_at(rest),
        None => {
            let rest = text.strip_prefix('[')?;
            let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
            rest[1..].split_once(quote).filter(|(_, after)| after.starts_with(']'))?.0
        }
    };
    // An escape stands for another character.
    Some(name).filter(|name| !name.is_empty() && !name.contains('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_steps_are_found_in_paths_cel_and_jq() {
        let mentions = Mentions::of_source("steps.a.body + size(steps['b c'].x) - steps.hash-payload.n");
        for id in ["a", "b c", "hash", "hash-payload"] {
            assert!(mentions.step(id), "{id}");
        }
        assert!(!mentions.step("body") && !mentions.step("d") && !mentions.root("loops"));
        assert!(Mentions::of_source(".steps.a | keys").step("a"));
        assert!(Mentions::of_source("1-steps.a").step("a"));
        assert!(Mentions::of_source("step.a.body").step("a"), "a synonym");
    }

    #[test]
    fn the_expressions_of_a_flow_are_found_at_any_depth() {
        let mentions_of = |source: &str| {
            let checked = crate::FlowDocument::new(source).check();
            let Some(flow) = checked.flow else { unreachable!("{:?}", checked.findings) };
            Mentions::of_flow(&flow)
        };
        let call = |id: &str| format!("{{ id: {id}, tool: log, args: {{ message: x }} }}");
        let ids = ["a", "b", "c", "d", "e", "f", "g", "step-1"];
        let calls = ids.map(call).join(", ");
        let until = "{ until: steps.b.done == true, max: 5 }";
        let no = "{ id: no, fail: { class: failed, message: \"{{steps.d}}\" } }";
        let inner = "id: in, tool: log, args: { message: \"{{steps.c}}\" }";
        let source = format!(
            "flow: 1\nname: f\ndescription: of all steps\ndo: [ {calls}, {{ id: l, loop: {until}, \
             do: [ {{ {inner}, on_error: {{ do: [ {no} ] }} }} ] }}, \
             {{ id: j, jq: .steps.e, when: steps.f == 1 }} ]\noutput: \"{{{{steps.a}}}}\"\n"
        );
        let mentions = mentions_of(&source);
        let found = ids.map(|id| mentions.step(id));
        assert_eq!(found, [true, true, true, true, true, true, false, false]);
        assert!(mentions_of("flow: 1\nname: f\ndo: [ { id: j, jq: keys } ]\n").step("any"));
    }

    #[test]
    fn another_use_of_steps_means_all() {
        for source in
            [".steps | keys", "steps[vars.name]", "steps.?a", "size(steps)", "steps", "x-steps", r"steps['\x61ny']"]
        {
            assert!(Mentions::of_source(source).step("any"), "{source}");
        }
    }

    #[test]
    fn a_jq_program_reads_all_results_unless_it_begins_with_a_path() {
        for program in
            [".", ".[]", "..", "keys", ".steps.a, keys", ".steps.a |= 1", ".steps.a-length", ".[\"st\" + \"eps\"]", ""]
        {
            assert!(Mentions::of_jq(program).step("any"), "{program}");
        }
        for program in [".steps.a", ".steps.a.items[] | select(.price > 3)", " .input.list[]? | keys"] {
            let mentions = Mentions::of_jq(program);
            assert!(!mentions.step("any") && mentions.step("a") == program.contains("steps"), "{program}");
        }
    }
}
