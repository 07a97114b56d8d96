//! Hostile documents are refused, and cost no more than their size.

use std::time::{Duration, Instant};

use workflow_flows::check::{Code, Dialect, Options, check};

use crate::told;

/// Checks a hostile document. It must be refused soon, with few findings.
#[track_caller]
fn refused(source: &str) -> Code {
    let begun = Instant::now();
    let checked = check(source, &Options::default());
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(!checked.is_valid());
    assert!((1..=200).contains(&checked.findings.len()), "{} findings", checked.findings.len());
    checked.findings[0].code
}

const SIZE: usize = 256 * 1024;

#[test]
fn depth_is_bounded() {
    assert_eq!(refused(&"[".repeat(SIZE)), Code::F001);
    assert_eq!(refused(&"{\"a\":".repeat(SIZE / 5)), Code::F001);
    assert_eq!(refused(&"- ".repeat(SIZE / 2)), Code::F001);
    assert_eq!(refused(&"? ".repeat(SIZE / 2)), Code::F001);
    let indented: String = (0..600).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert_eq!(refused(&indented), Code::F001);
    let json = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(refused(&json), Code::F001);
}

#[test]
fn size_is_bounded() {
    assert_eq!(refused(&"a".repeat(SIZE + 1)), Code::F050);
    assert_eq!(refused(&"\n".repeat(SIZE)), Code::F001);
    assert_eq!(refused(&"\u{feff}".repeat(1000)), Code::F001);
    assert_eq!(refused("\0"), Code::F001);
    let twice = check("{\"9 bytes; \": 1, \"9 bytes; \": 2}", &Options::default());
    assert!(twice.findings.iter().all(|finding| finding.code != Code::F050), "{}", told(&twice));
}

#[test]
fn nothing_is_expanded() {
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n";
    assert_eq!(refused(laughs), Code::F001);
    assert_eq!(refused("flow: 1\nname: !!binary aGVsbG8=\n"), Code::F001);
    assert_eq!(refused("%TAG ! tag:example.test,2000:\n---\n!x a: 1\n"), Code::F001);
    assert_eq!(refused("base: { a: 1 }\nflow: { <<: { a: 1 } }\n"), Code::F001);
}

#[test]
fn many_faults_are_told_in_part() {
    let keys: String = (0..20_000).map(|number| format!("k{number}: 1\n")).collect();
    let checked =
        check(&format!("flow: 1\nname: a\n{keys}"), &Options { dialect: Some(Dialect::Native), ..Options::default() });
    assert_eq!(checked.findings.len(), 100, "{}", told(&checked));
    assert!(checked.untold > 19_000);
    let twice = "flow: 1\n".repeat(20_000);
    assert_eq!(refused(&twice), Code::F001);
    let steps: String = (0..6_000).map(|number| format!("  - {{ id: s{number}, tool: x }}\n")).collect();
    assert_eq!(refused(&format!("flow: 1\nname: a\ndo:\n{steps}")), Code::F050);
    let same: String = (0..6_000).map(|_| "  - { id: s, tool: x }\n".to_owned()).collect();
    assert_eq!(refused(&format!("flow: 1\nname: a\ndo:\n{same}")), Code::F012);
}

#[test]
fn expressions_are_bounded() {
    let long = format!("flow: 1\nname: a\ndo: [ {{ id: a, tool: x, when: \"{}\" }} ]\n", "(".repeat(200_000));
    assert_eq!(refused(&long), Code::F050);
    let many = format!("flow: 1\nname: a\ndo: [ {{ id: a, tool: x, args: \"{}\" }} ]\n", "{{a}}".repeat(10_000));
    assert_eq!(refused(&many), Code::F050);
    let deep = format!("flow: 1\nname: a\ndo: [ {{ id: a, tool: x, when: \"{}\" }} ]\n", "(".repeat(4_000));
    assert_eq!(refused(&deep), Code::F033);
}

#[test]
fn schemas_without_an_end_are_refused() {
    for schema in [
        r##"{ $ref: "#" }"##,
        r##"{ allOf: [ { $ref: "#" } ] }"##,
        r##"{ $ref: "#/$defs/a", $defs: { a: { anyOf: [ { $ref: "#/$defs/b" } ] }, b: { not: { $ref: "#/$defs/a" } } } }"##,
        r#"{ $ref: "http://example.test/schema.json" }"#,
        r#"{ pattern: "(a" }"#,
    ] {
        assert_eq!(refused(&format!("flow: 1\nname: a\ninput: {schema}\ndo: [ {{ id: a, tool: x }} ]\n")), Code::F013);
    }
    let list = r##"{ $ref: "#/$defs/list", $defs: { list: { properties: { next: { $ref: "#/$defs/list" } } } } }"##;
    let checked =
        check(&format!("flow: 1\nname: a\ninput: {list}\ndo: [ {{ id: a, tool: x }} ]\n"), &Options::default());
    assert!(checked.is_valid(), "{}", told(&checked));
}

#[test]
fn graphs_without_a_shape_cost_little() {
    // Each step fans out into all the others.
    let ids: Vec<String> = (0..90).map(|number| format!("s{number}")).collect();
    let list = ids.join(", ");
    let steps: String = ids.iter().map(|id| format!("  {id}: {{ parallel: [{list}] }}\n")).collect();
    refused(&format!("flow: 1\nname: a\ngraph:\n{steps}"));
    let ids: Vec<String> = (0..900).map(|number| format!("s{number}")).collect();
    let steps: String = ids
        .iter()
        .enumerate()
        .map(|(at, id)| format!("  - {{ id: {id}, tool: x, needs: [s{}] }}\n", (at + 1) % 900))
        .collect();
    assert_eq!(refused(&format!("flow: 1\nname: a\ndag:\n{steps}")), Code::F021);
}

#[test]
fn any_text_is_refused_without_a_panic() {
    let sample = include_str!("../broken/several.yaml");
    for end in (0..sample.len()).filter(|end| sample.is_char_boundary(*end)) {
        let _ = check(&sample[..end], &Options::default());
        let _ = check(&format!("{}\u{1f600}{}", &sample[..end], &sample[end..]), &Options::default());
        let _ = check(&format!("{}{{{}", &sample[..end], &sample[end..]), &Options::default());
    }
    for source in [
        "", " ", "-", "?", ":", "---", "...", "'", "\"", "{", "[", "|", ">", "!", "&", "*", "%", "#", "null", "[]",
        "{}", "5",
    ] {
        let _ = refused(source);
        for dialect in [Dialect::Native, Dialect::TwoTable, Dialect::Opcode, Dialect::Cncf] {
            let _ = check(source, &Options { dialect: Some(dialect), ..Options::default() });
        }
    }
}
