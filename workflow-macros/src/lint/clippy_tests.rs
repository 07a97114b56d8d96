//! The same table for clippy, which sees the functions that a workflow calls.
//!
//! After a change of the table: `WORKFLOW_REWRITE=1 cargo test -p workflow-macros clippy`, then read the difference.

use super::*;
use std::fmt::Write;

const HEAD: &str = "\
# Clippy rules for the functions that workflows call. Copy them into the clippy.toml of the crate
# that holds these functions; docs/guide/determinism.md explains how. A test of workflow-macros
# generates this file from the rules of `#[workflow]`: do not edit it here.
";

/// The methods through which the order of a hash map or a hash set is seen; `for` is `clippy::iter_over_hash_type`'s.
const HASH_METHODS: [(&str, &[&str]); 2] = [
    (
        "std::collections::HashMap",
        &["drain", "into_keys", "into_values", "iter", "iter_mut", "keys", "values", "values_mut"],
    ),
    ("std::collections::HashSet", &["difference", "drain", "intersection", "iter", "symmetric_difference", "union"]),
];

fn fragment() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\ndisallowed-methods = [\n");
    for rule in Rule::ALL {
        let paths: Vec<String> = match rule {
            Rule::MapOrder => HASH_METHODS
                .iter()
                .flat_map(|(ty, methods)| methods.iter().map(move |method| format!("{ty}::{method}")))
                .collect(),
            _ => rule.sources().iter().flat_map(|source| source.paths()).collect(),
        };
        // Functions of a trait: clippy knows them by it, and it stands in the table too.
        for path in paths.into_iter().filter(|path| !path.starts_with("rand::rngs::")) {
            line(&mut text, rule, &path, rule.fix());
        }
    }
    text.push_str("]\n\n# `tokio::select!` is not here: clippy cannot tell whether it begins with `biased;`.\n");
    text.push_str("disallowed-macros = [\n");
    for path in ["futures::select", "futures_util::select"] {
        line(&mut text, Rule::UnbiasedSelect, path, "use `futures::select_biased!`");
    }
    text.push_str("]\n");
    text
}

fn line(text: &mut String, rule: Rule, path: &str, fix: &str) {
    // A crate that is not used, or a release of it without that function, is no mistake.
    let absent = if path.starts_with("std::") { "" } else { ", allow-invalid = true" };
    let name = rule.name();
    writeln!(text, "    {{ path = \"{path}\", reason = \"{name}: {fix}\"{absent} }},").unwrap();
}

#[test]
fn the_fragment_for_clippy_says_what_the_rules_say() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clippy.toml");
    let expected = fragment();
    if std::env::var_os("WORKFLOW_REWRITE").is_some() {
        std::fs::write(file, &expected).unwrap();
    }
    let found = std::fs::read_to_string(file).unwrap();
    assert!(found == expected, "docs/clippy.toml is not what the rules say: WORKFLOW_REWRITE=1 writes it anew");
}
