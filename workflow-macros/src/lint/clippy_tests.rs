//! Generates `docs/clippy.toml`, which lists the disallowed functions for clippy.
//!
//! Clippy also checks the functions that a workflow calls, which the macro cannot see.
//! After a change of the rules, run `WORKFLOW_REWRITE=1 cargo test -p workflow-macros clippy` and
//! read the difference.

use super::*;
use std::fmt::Write;

const HEAD: &str = "\
# Clippy rules for the functions that workflows call. Copy them into the clippy.toml of the crate
# that holds these functions; docs/guide/determinism.md explains how. A test of workflow-macros
# generates this file from the rules of `#[workflow]`: change the rules, not this file.
";

/// The methods that reveal the order of a hash map or a hash set.
///
/// `for` loops are left to `clippy::iter_over_hash_type`.
const HASH_METHODS: [(&str, &[&str]); 2] = [
    (
        "std::collections::HashMap",
        &["drain", "into_keys", "into_values", "iter", "iter_mut", "keys", "values", "values_mut"],
    ),
    ("std::collections::HashSet", &["difference", "drain", "intersection", "iter", "symmetric_difference", "union"]),
];

fn clippy_toml() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\ndisallowed-methods = [\n");
    for rule in Rule::ALL {
        let paths: Vec<String> = match rule {
            Rule::MapOrder => HASH_METHODS
                .iter()
                .flat_map(|(ty, methods)| methods.iter().map(move |method| format!("{ty}::{method}")))
                .collect(),
            _ => rule.functions().iter().flat_map(|group| group.paths()).collect(),
        };
        // These functions belong to the trait `SeedableRng`. Clippy needs the path of the trait,
        // which is in the table too.
        for path in paths.into_iter().filter(|path| !path.starts_with("rand::rngs::")) {
            add_entry(&mut text, rule, &path, rule.fix());
        }
    }
    text.push_str(
        "]\n\n# `tokio::select!` is not listed, because clippy cannot tell whether it begins with `biased;`.\n",
    );
    text.push_str("disallowed-macros = [\n");
    for path in ["futures::select", "futures_util::select"] {
        add_entry(&mut text, Rule::UnbiasedSelect, path, "use `futures::select_biased!`");
    }
    text.push_str("]\n");
    text
}

fn add_entry(text: &mut String, rule: Rule, path: &str, fix: &str) {
    // The crate may not be a dependency, or its release may lack the function.
    let absent = if path.starts_with("std::") { "" } else { ", allow-invalid = true" };
    let name = rule.name();
    writeln!(text, "    {{ path = \"{path}\", reason = \"{name}: {fix}\"{absent} }},").unwrap();
}

#[test]
fn the_clippy_configuration_matches_the_rules() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clippy.toml");
    let expected = clippy_toml();
    if std::env::var_os("WORKFLOW_REWRITE").is_some() {
        std::fs::write(file, &expected).unwrap();
    }
    let found = std::fs::read_to_string(file).unwrap();
    assert!(found == expected, "docs/clippy.toml differs from the rules: rerun this test with WORKFLOW_REWRITE=1");
}
