//! Reads features: scenarios with a workflow, an input, and what is to come of it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use workflow_flows::document::{Bounds, parse};

/// One scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) definition: String,
    pub(crate) input: Value,
    pub(crate) assertions: Vec<Assertion>,
}

/// A sentence about the end of a workflow.
#[derive(Debug)]
pub(crate) enum Assertion {
    Completes,
    CompletesWith(Value),
    Faults,
    FaultsWith(Value),
    Has(Vec<String>),
    HasValue(String, Value),
    HasItems(String, usize),
    First(String),
    Last(String),
    After(String, String),
    /// A sentence that this program does not know. It never holds.
    Unknown(String),
}

impl Scenario {
    /// Returns whether the workflow calls a server.
    pub(crate) fn calls(&self) -> bool {
        self.definition.contains("https://petstore") || self.definition.contains("https://httpbin")
    }
}

/// Reads the features of a directory, in the order of their names.
pub(crate) fn read(directory: &Path) -> Vec<Scenario> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "feature"))
        .collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        scenarios(&name, &fs::read_to_string(path).unwrap())
    };
    files.iter().flat_map(read).collect()
}

fn scenarios(file: &str, text: &str) -> Vec<Scenario> {
    let mut found: Vec<Scenario> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("Scenario:") {
            found.push(Scenario {
                file: file.to_owned(),
                name: name.trim().to_owned(),
                definition: String::new(),
                input: Value::Null,
                assertions: Vec::new(),
            });
            continue;
        }
        let Some((_, sentence)) =
            line.split_once(' ').filter(|(word, _)| ["Given", "When", "Then", "And"].contains(word))
        else {
            continue;
        };
        let mut document = String::new();
        if lines.peek().is_some_and(|next| next.trim().starts_with("\"\"\"")) {
            lines.next();
            let part = lines.by_ref().take_while(|line| !line.trim().starts_with("\"\"\""));
            document = part.collect::<Vec<_>>().join("\n");
        }
        if let Some(scenario) = found.last_mut() {
            add(scenario, sentence.trim(), &document);
        }
    }
    found
}

fn add(scenario: &mut Scenario, sentence: &str, document: &str) {
    if sentence.starts_with("a workflow with definition") {
        scenario.definition = document.to_owned();
    } else if sentence.starts_with("given the workflow input is") {
        scenario.input = value(document);
    } else if sentence != "the workflow is executed" {
        scenario.assertions.push(assertion(sentence, document));
    }
}

fn assertion(sentence: &str, document: &str) -> Assertion {
    let quoted: Vec<String> = sentence.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
    let words: Vec<&str> = sentence.split_whitespace().collect();
    match (sentence.trim_end_matches(':'), quoted.as_slice(), words.as_slice()) {
        ("the workflow should complete", ..) => Assertion::Completes,
        ("the workflow should complete with output", ..) => Assertion::CompletesWith(value(document)),
        ("the workflow should fault", ..) => Assertion::Faults,
        ("the workflow should fault with error", ..) => Assertion::FaultsWith(value(document)),
        (_, [_, ..], ["the", "workflow", "output", "should", "have", "properties", ..]) => Assertion::Has(quoted),
        (_, [path], [.., "with", "value:"]) => Assertion::HasValue(path.clone(), value(document)),
        (_, [path], [.., "containing", count, "items"]) => Assertion::HasItems(path.clone(), count.parse().unwrap()),
        (_, [], [name, "should", "run", "first"]) => Assertion::First((*name).to_owned()),
        (_, [], [name, "should", "run", "last"]) => Assertion::Last((*name).to_owned()),
        (_, [], [later, "should", "run", "after", earlier]) => {
            Assertion::After((*later).to_owned(), (*earlier).to_owned())
        }
        (_, [], [earlier, "should", "run", "before", later]) => {
            Assertion::After((*later).to_owned(), (*earlier).to_owned())
        }
        _ => Assertion::Unknown(sentence.to_owned()),
    }
}

fn value(document: &str) -> Value {
    parse(document, Bounds::default()).root.expect("a document of a feature can be read").to_json()
}
