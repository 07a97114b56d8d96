//! The needs of a release: what docs.rs builds, the lock file, and the form of the changelog.

use std::fs;

use regex::Regex;

use crate::sources::{SHIPPED, root, shown};

/// Features for tests of the engine itself, which documentation leaves out.
const TEST_FEATURES: [&str; 2] = ["failpoints", "planted-bugs"];

/// The lines of a section of a manifest, without comments and blank lines.
fn section<'a>(manifest: &'a str, header: &str) -> Option<Vec<&'a str>> {
    let mut lines = manifest.lines().skip_while(|line| *line != header);
    lines.next()?;
    let lines = lines.take_while(|line| !line.starts_with('['));
    Some(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect())
}

/// The first line that begins so, or nothing.
fn line_of<'a>(lines: &[&'a str], beginning: &str) -> &'a str {
    lines.iter().copied().find(|line| line.starts_with(beginning)).unwrap_or_default()
}

#[test]
fn docs_rs_builds_each_published_crate_with_the_features_for_users() {
    for package in SHIPPED {
        let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
        let docs = section(&manifest, "[package.metadata.docs.rs]").unwrap_or_default();
        assert!(docs.contains(&"targets = []"), "{package}: [package.metadata.docs.rs] lacks `targets = []`");
        let features = section(&manifest, "[features]").unwrap_or_default();
        let names = features.iter().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
        let (for_tests, for_users): (Vec<&str>, Vec<&str>) =
            names.filter(|name| *name != "default").partition(|name| TEST_FEATURES.contains(name));
        let is_whole = docs.contains(&"all-features = true");
        assert!(!is_whole || for_tests.is_empty(), "docs.rs would build the features for tests of {package}");
        let (chosen, default) = (line_of(&docs, "features = "), line_of(&features, "default = "));
        for feature in &for_users {
            let quoted = format!("\"{feature}\"");
            let is_built = is_whole || chosen.contains(&quoted) || default.contains(&quoted);
            assert!(is_built, "docs.rs does not build the feature {feature} of {package}");
        }
        let library = fs::read_to_string(root().join(package).join("src/lib.rs")).unwrap();
        let has_labels = library.contains("\n#![cfg_attr(docsrs, feature(doc_cfg))]\n");
        assert!(has_labels || for_users.is_empty(), "the documentation of {package} does not name features");
    }
}

/// The commands of cargo that read `Cargo.lock`. Each of them would change it without `--locked`.
const LOCKED: [&str; 11] =
    ["bench", "build", "check", "clippy", "doc", "install", "metadata", "package", "run", "test", "tree"];

/// The calls of cargo in a script that may change `Cargo.lock`.
fn unlocked_calls(script: &str) -> Vec<String> {
    let script = script.replace("\\\n", " ");
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    let calls = lines.flat_map(|line| line.split("cargo ").skip(1));
    let unlocked = calls.filter(|call| {
        let mut words = call.split_whitespace().skip_while(|word| word.starts_with(['+', '"']));
        words.next().is_some_and(|word| LOCKED.contains(&word)) && !call.contains("--locked")
    });
    unlocked.map(str::to_owned).collect()
}

#[test]
fn each_call_of_cargo_in_a_script_keeps_the_lock_file() {
    let scripts = fs::read_dir(root().join("scripts")).unwrap().map(|entry| entry.unwrap().path());
    for path in scripts.chain([root().join(".ci/run")]) {
        let calls = unlocked_calls(&fs::read_to_string(&path).unwrap());
        assert!(calls.is_empty(), "{} calls cargo without --locked: {calls:?}", shown(&path));
    }
}

#[test]
fn a_call_without_locked_is_found() {
    let script =
        "cargo build --locked\n# cargo test\ncargo fmt\ncargo \"+$rust\" check --all\nstep cargo test \\\n    --all";
    assert_eq!(unlocked_calls(script), ["\"+$rust\" check --all", "test      --all"]);
}

/// The sections that a release may have, in their order.
const SECTIONS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// The faults of a changelog.
fn faults_of_changelog(text: &str) -> Vec<String> {
    let dated = Regex::new(r"^\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$").unwrap();
    let mut faults = Vec::new();
    for (release, index) in text.split("\n## ").skip(1).zip(0..) {
        let title = release.lines().next().unwrap_or_default();
        let is_known = if index == 0 { title == "[Unreleased]" } else { dated.is_match(title) };
        if !is_known {
            faults.push(format!("title: {title}"));
        }
        let mut known = SECTIONS.iter();
        for section in release.lines().filter_map(|line| line.strip_prefix("### ")) {
            if !known.any(|it| *it == section) {
                faults.push(format!("section: {section}"));
            }
        }
        for line in release.lines().skip_while(|line| !line.starts_with("### ")) {
            if !line.is_empty() && !["- ", "  ", "> ", "### "].iter().any(|beginning| line.starts_with(beginning)) {
                faults.push(format!("no item: {line}"));
            }
        }
    }
    faults
}

#[test]
fn the_changelog_keeps_its_form() {
    let text = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(text.contains("\n## [Unreleased]\n"), "CHANGELOG.md lacks [Unreleased]");
    assert_eq!(faults_of_changelog(&text), Vec::<String>::new());
}

#[test]
fn the_form_of_the_changelog_finds_faults() {
    let text =
        "# Changelog\n\n## [Unreleased]\n\n### Fixed\n- one\n\n## [0.1.0] - soon\n### Fixed\n- two\nthree\n### Added\n";
    assert_eq!(faults_of_changelog(text), ["title: [0.1.0] - soon", "section: Added", "no item: three"]);
}
