//! `workflow flow`: exit codes, and what people and programs read.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const GOOD: &str = "flow: 1\nname: hello\ndag:\n  - { id: a, tool: log, args: { x: \"{{inputs.x}}\" } } # a comment\n  - { id: b, tool: log }\n  - { id: c, needs: [a, b], approval: { to: ops } }\n";

const BAD: &str = "flow: 1\nname: hello\ndo:\n  - id: charge\n    tool: log\n    retires: { attempts: 2 }\n  - { id: b, wait: { for: 5 } }\n  - { id: c, tool: log, args: { x: \"{{steps.charg.id}}\" } }\n";

const DOUBTFUL: &str = "flow: 1\nname: hello\ngraph:\n  start: { tool: log, done: true }\n  old: { tool: log }\n";

/// A directory with documents of flows.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("good.yaml", GOOD), ("bad.yaml", BAD), ("doubtful.yaml", DOUBTFUL)] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        Self(directory)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        command.arg("flow").args(arguments).current_dir(self.0.path()).env_remove("WORKFLOW_DATABASE_URL");
        command.output().unwrap()
    }

    /// The exit code and the standard output.
    fn says(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }
}

/// Compares a text with its snapshot, without the digests.
fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"[0-9a-f]{12}\)", "[digest])");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn check_tells_all_findings_and_exits_with_their_weight() {
    let place = Place::new();
    let (code, text) = place.says(&["check", "good.yaml", "bad.yaml", "doubtful.yaml"]);
    assert_eq!(code, 1);
    assert_snapshot("flow_check", &text);
    assert_eq!(place.says(&["check", "good.yaml"]).0, 0);
    assert_eq!(place.says(&["check", "doubtful.yaml"]).0, 0, "warnings let a flow start");
    assert_eq!(place.says(&["check", "doubtful.yaml", "--strict"]).0, 1);
    assert_eq!(place.says(&["check", "missing.yaml"]).0, 2);
    assert_eq!(place.says(&["check"]).0, 2);
    fs::write(place.0.path().join("latin.yaml"), [0x66, 0xe9]).unwrap();
    assert_eq!(place.says(&["check", "latin.yaml"]).0, 2);
    assert_eq!(place.says(&["check", "good.yaml", "--input", "{"]).0, 2);
    assert_eq!(place.says(&["check", "good.yaml", "--input", "{}"]).0, 0);
}

#[test]
fn check_answers_programs_in_json() {
    let place = Place::new();
    let (code, text) = place.says(&["check", "bad.yaml", "--json"]);
    assert_eq!(code, 1);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let finding = &answer[0]["findings"][0];
    assert_eq!((&finding["code"], &finding["line"], &finding["column"]), (&"F010".into(), &6.into(), &5.into()));
    assert_eq!(finding["fix"]["edits"][0]["op"], "move");
    assert_eq!(answer[0]["file"], "bad.yaml");
    let (_, text) = place.says(&["check", "good.yaml", "--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer[0]["flow"]["name"], "hello");
    assert_eq!(answer[0]["digest"].as_str().unwrap().len(), 64);
}

#[test]
fn fmt_keeps_comments_and_says_what_it_changed() {
    let place = Place::new();
    assert_eq!(place.says(&["fmt", "--check", "good.yaml"]), (1, "good.yaml: would change\n".to_owned()));
    assert_eq!(place.says(&["fmt", "good.yaml"]), (0, "good.yaml: changed\n".to_owned()));
    let text = fs::read_to_string(place.0.path().join("good.yaml")).unwrap();
    assert_eq!(text, GOOD.replace("inputs.x", "input.x"));
    assert_eq!(place.says(&["fmt", "--check", "good.yaml"]), (0, String::new()));
    assert_eq!(place.says(&["fmt", "bad.yaml"]).0, 1);
    assert_eq!(fs::read_to_string(place.0.path().join("bad.yaml")).unwrap(), BAD);
}

#[test]
fn diagrams_and_levels_are_drawn() {
    let place = Place::new();
    let (code, text) = place.says(&["diagram", "good.yaml"]);
    assert_eq!(code, 0);
    assert_snapshot("flow_diagram", &text);
    assert_eq!(place.says(&["diagram", "--levels", "good.yaml"]), (0, "1: a, b\n2: c\n".to_owned()));
    assert_eq!(place.says(&["diagram", "bad.yaml"]).0, 1);
    let (code, text) = place.says(&["schema"]);
    assert_eq!((code, serde_json::from_str::<Value>(&text).unwrap()["title"].clone()), (0, "flow: 1".into()));
}

/// A flow is started whole or not at all: the document and the input are checked before.
#[test]
fn run_starts_what_is_valid_and_nothing_else() {
    let place = Place::new();
    let with_schema =
        format!("{GOOD}input: {{ type: object, required: [x], properties: {{ x: {{ type: number }} }} }}\n");
    let limited = with_schema.replace("id: b, tool: log", "id: b, tool: log, limit: { key: busy, max: 2 }");
    fs::write(place.0.path().join("schema.yaml"), limited).unwrap();
    let workflow = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        command.args(arguments).args(["--to", "runs.db"]).current_dir(place.0.path());
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(workflow(&["migrate"]).0, 0);

    let (code, text) = workflow(&["flow", "run", "bad.yaml"]);
    assert_eq!(code, 1);
    assert!(text.contains("bad.yaml:6:5: error F010"), "{text}");
    let (code, text) = workflow(&["flow", "run", "schema.yaml", "--input", r#"{ "x": "seven" }"#]);
    assert_eq!(code, 1);
    assert!(text.contains("F060") && text.contains("/x"), "{text}");
    assert_eq!(workflow(&["flow", "run", "good.yaml", "--input", "{"]).0, 2);
    assert_eq!(workflow(&["flow", "run", "missing.yaml"]).0, 2);
    for verb in ["check", "deploy"] {
        assert_eq!(workflow(&["flow", verb, "good.yaml", "--connect"]).0, 2, "this program has no tools to ask");
    }
    assert_eq!(workflow(&["runs", "list", "-o", "ids"]).1, "", "nothing was started");
    assert_eq!(workflow(&["limits", "list", "-o", "ids"]).1, "", "nothing was declared");

    let arguments = ["flow", "run", "schema.yaml", "--input", r#"{ "x": 7 }"#, "--actor", "ann", "--key", "one"];
    let (code, text) = workflow(&arguments);
    assert_eq!(code, 0);
    let run = text.trim();
    assert_eq!(workflow(&["runs", "list", "tag.flow:hello", "-o", "ids"]).1.trim(), run);
    assert_eq!(workflow(&["limits", "list", "-o", "ids"]).1.trim(), "busy");
    assert_eq!(workflow(&arguments).1.trim(), run, "the key is taken");
    let shown: Value = serde_json::from_str(&workflow(&["runs", "show", run, "--json"]).1).unwrap();
    let shown = shown.to_string();
    assert!(shown.contains("\"workflow\":\"flow\"") && shown.contains("\"flow\":\"hello\""), "{shown}");
}

/// The fences of a language on the page about trying flows.
fn fences(language: &str) -> Vec<String> {
    let page = include_str!("../../../docs/guide/flows-testing.md");
    let begin = format!("```{language}\n");
    let fences = page.split(&begin).skip(1).filter_map(|rest| rest.split("```").next());
    fences.map(str::to_owned).collect()
}

/// A directory with the flow, the stubs and the cases of the guide.
fn guide() -> Place {
    let place = Place::new();
    for (name, text) in ["order.yaml", "stubs.yaml", "order.test.yaml"].into_iter().zip(fences("yaml")) {
        fs::write(place.0.path().join(name), text).unwrap();
    }
    place
}

const DEAR: &str = r#"{"id": "o-1", "cents": 150000}"#;

/// The flows that the pages about flows and the README show whole, each with its name.
fn shown_flows() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![root.join("README.md")];
    for entry in fs::read_dir(root.join("docs/guide")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("flow") {
            pages.push(entry.path());
        }
    }
    let mut flows = Vec::new();
    for page in pages {
        let text = fs::read_to_string(page).unwrap();
        for document in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if document.starts_with("flow: 1") || document.starts_with("document:") {
                let name = document.split("name: ").nth(1).and_then(|rest| rest.split([',', '\n']).next()).unwrap();
                flows.push((name.to_owned(), document.to_owned()));
            }
        }
    }
    flows
}

/// An input for each flow that the documents show.
const INPUTS: [(&str, &str); 21] = [
    ("hello", r#"{"name": "Ada"}"#),
    ("two-sources", r#"{"a": "https://a.test", "b": "https://b.test", "priority": 9}"#),
    ("greeting", "{}"),
    ("charge-order", r#"{"order": {"id": "o-1", "total": 5}, "account": "acme"}"#),
    ("values", r#"{"n": 3, "xs": [{"name": "first"}]}"#),
    ("print-it", "{}"),
    ("summary", r#"{"topic": "rust"}"#),
    ("sized", r#"{"total": 20000, "severity": "critical"}"#),
    (
        "hashes",
        r#"{"items": [{"name": "a", "active": true}, {"name": "b", "active": false}], "url": "https://a.test"}"#,
    ),
    ("countdown", "{}"),
    ("enriched", r#"{"lead": "acme"}"#),
    ("gates", r#"{"id": "o-1", "owner": "ann"}"#),
    ("paid", r#"{"order": "o-1", "total": 5}"#),
    ("learned", r#"{"id": "t-1", "text": "Open the tray."}"#),
    (
        "support-triage",
        r#"{"id": "t-1", "subject": "Jam", "text": "No paper.", "customer": "acme", "receivers": ["a@acme.test"]}"#,
    ),
    ("watched", "{}"),
    ("shaped", r#"{"items": [{"id": 1, "name": "a", "active": true}]}"#),
    ("fallbacks", "{}"),
    ("greet-pets", r#"{"pets": [{"name": "Rex", "owner": "ann"}]}"#),
    ("ship-order", DEAR),
    ("triage", r#"{"text": "No paper"}"#),
];

/// Answers where the flow computes with the result of a step, which examples do not fit.
const ANSWERS: &str = "steps:
  a: { result: { body: [1] } }
  b: { result: { body: [2] } }
  start: { result: true }
  get-it: { result: { status_code: 200, body: text } }
  status: { result: { body: { done: true } } }
  payment: { result: { amount: 5 } }
";

/// Each flow of the guide is valid without a warning, and its dry run succeeds.
#[test]
fn every_flow_of_the_guide_runs_dry() {
    let place = Place::new();
    fs::write(place.0.path().join("answers.yaml"), ANSWERS).unwrap();
    let flows = shown_flows();
    let shown: BTreeSet<&str> = flows.iter().map(|(name, _)| name.as_str()).collect();
    let known: BTreeSet<&str> = INPUTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(shown, known, "each flow needs an input in INPUTS");
    for (name, document) in &flows {
        let file = format!("{name}.yaml");
        fs::write(place.0.path().join(&file), document).unwrap();
        let (code, text) = place.says(&["check", file.as_str(), "--strict"]);
        assert!(code == 0 && text.lines().count() == 1, "{name}: {code}: {text}");
        let input = INPUTS.iter().find(|(of, _)| of == name).unwrap().1;
        let ran = place.run(&["run", file.as_str(), "--dry-run", "--stub", "answers.yaml", "--input", input]);
        let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        assert!(ran.status.success() && text.contains("\noutput: "), "{name}: {}: {text}", ran.status);
    }
}

#[test]
fn the_guide_shows_what_dry_runs_print() {
    let (place, shown) = (guide(), fences("text"));
    let (code, text) = place.says(&["run", "order.yaml", "--dry-run", "--input", DEAR]);
    assert_eq!((code, text.as_str()), (0, shown[0].as_str()), "{text}");
    let (code, text) = place.says(&["test", "order.yaml"]);
    assert_eq!((code, text.as_str()), (0, shown[1].as_str()), "{text}");
    let cases = fs::read_to_string(place.0.path().join("order.test.yaml")).unwrap();
    let cases = cases.replace("output: { parcel: p-1 }", "output: { parcel: p-2 }").replace("took: 8h", "took: 9h");
    fs::write(place.0.path().join("order.test.yaml"), cases).unwrap();
    let (code, text) = place.says(&["test", "order.test.yaml"]);
    assert_eq!((code, text.as_str()), (1, shown[2].as_str()), "{text}");
}

#[test]
fn stubs_answer_a_dry_run() {
    let place = guide();
    let arguments = ["run", "order.yaml", "--dry-run", "--stub", "stubs.yaml", "--json", "--input", DEAR];
    let (code, text) = place.says(&arguments);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["output"]), (0, &serde_json::json!({ "parcel": "p-1" })), "{text}");
    let steps = answer["steps"].as_array().unwrap();
    let charges: Vec<&Value> = steps.iter().filter(|step| step["step"] == "charge").collect();
    assert_eq!(charges.len(), 2, "{text}");
    assert_eq!((&charges[0]["calls"][0]["error"], &charges[0]["at_ms"]), (&"the bank is closed".into(), &0.into()));
    assert_eq!((&charges[1]["result"]["id"], &charges[1]["at_ms"]), (&"c-7".into(), &30_000.into()));
    let hours = 3 * 3_600_000 + 30_000;
    assert_eq!(answer["took_ms"], hours);

    fs::write(place.0.path().join("stubs.yaml"), "steps: { gate: { never: true } }\n").unwrap();
    let (code, text) = place.says(&arguments);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 1);
    assert!(answer["error"].as_str().unwrap().contains("F230"), "{text}");
    assert_eq!(answer["took_ms"], 8 * 3_600_000);
}

/// jq, models, other runs, knowledge and messages have stubs, too.
#[test]
fn everything_that_a_flow_calls_has_a_stub() {
    let place = Place::new();
    let flow = r#"
flow: 1
name: all
do:
  - { id: many, jq: "[range(3)]" }
  - id: judge
    recipe: { prompt: "{{steps.many[1]}}?", output: { type: object, properties: { ok: { type: boolean } } } }
  - { id: sub, flow: refund, args: { id: 1 } }
  - { id: learn, kb: { base: support, title: T, text: "{{steps.sub.note}}", tags: ["{{steps.many}}", last] } }
  - { id: tell, handoff: { to: ops, text: hi } }
  - { id: pick, decision: { prompt: which, options: { a: x, b: y } } }
  - { id: paid, wait: { event: paid, key: k }, timeout: 1h }
  - { id: pay, tool: pay, args: { token: "{{secrets.bank}}", total: "{{steps.paid.total}}" } }
output: { ok: "{{steps.judge.ok}}", pick: "{{steps.pick.choice}}" }
"#;
    fs::write(place.0.path().join("all.yaml"), flow).unwrap();
    let (code, text) = place.says(&["run", "all.yaml", "--dry-run"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("output: {\"ok\":true,\"pick\":\"a\"}"), "{text}");
    for part in [
        "flow refund {\"id\":1}",
        "kb support",
        "\"tags\":[\"0\",\"1\",\"2\",\"last\"]",
        "channel {",
        "[secret bank]",
        "steps.paid.total",
        "1?",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn broken_stubs_and_cases_are_refused_with_their_place() {
    let place = Place::new();
    let path = place.0.path().to_owned();
    fs::write(path.join("plain.yaml"), "flow: 1\nname: plain\ndo: [ { id: a, tool: log, args: {} } ]\n").unwrap();
    let errors = |arguments: &[&str]| {
        let output = place.run(arguments);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    fs::write(path.join("stub.yaml"), "tool: {}\n").unwrap();
    let (code, text) = errors(&["run", "plain.yaml", "--dry-run", "--stub", "stub.yaml"]);
    assert!(code == 2 && text.contains("unknown field `tool`"), "{code}: {text}");
    fs::write(path.join("stub.yaml"), "tools: { a: [\n").unwrap();
    let (code, text) = errors(&["run", "plain.yaml", "--dry-run", "--stub", "stub.yaml"]);
    assert!(code == 2 && text.contains("stub.yaml:"), "{code}: {text}");
    assert_eq!(errors(&["run", "plain.yaml", "--stub", "stub.yaml"]).0, 2, "stubs are for dry runs");
    assert_eq!(errors(&["test", "plain.yaml"]).0, 2, "it has no cases");
    for (cases, part) in [
        ("cases: {}\n", "no list \"cases\""),
        ("cases: [ { name: a } ]\n", "case 1 \"a\": missing field `expect`"),
        ("cases: [ { name: a, expect: { outputs: 1 } } ]\n", "unknown field `outputs`"),
        ("cases: [ { name: a, expect: {} }, { name: a, expect: {} } ]\n", "stands twice"),
        ("cases: [ { name: a, expect: { took: soon } } ]\n", "took"),
        ("document: none.yaml\ncases: []\n", "none.yaml"),
    ] {
        fs::write(path.join("plain.test.yaml"), cases).unwrap();
        let (code, text) = errors(&["test", "plain.yaml"]);
        assert!(code == 2 && text.contains(part), "{cases}: {code}: {text}");
    }
    let cases = "
cases:
  - { name: no stub, expect: { output: null } }
  - { name: stub, stubs: { tools: { log: { result: 1 } } }, expect: { output: 1, calls: [] } }
";
    fs::write(path.join("plain.test.yaml"), cases).unwrap();
    let (code, text) = place.says(&["test", "plain.yaml"]);
    assert!(code == 1 && text.contains("no stub answers \"log\" here"), "{text}");
    assert!(text.contains("calls[0]: not expected: \"log\" in \"a\""), "{text}");
    let (code, text) = place.says(&["test", "plain.yaml", "--only", "no", "--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, answer.as_array().unwrap().len(), &answer[0]["passed"]), (1, 1, &false.into()), "{text}");
    let (code, text) = errors(&["test", "plain.yaml", "--only", "nothing"]);
    assert!(code == 2 && text.contains("there is no case whose name contains \"nothing\""), "{text}");
}

/// A document of the Serverless Workflow language, with an event that a stub gives.
#[test]
fn a_serverless_workflow_runs_dry() {
    let place = Place::new();
    let flow = "
document: { dsl: '1.0.3', namespace: shop, name: paid, version: '1.0.0' }
do:
  - paid:
      listen: { to: { any: [ { with: { type: com.shop.paid, source: bank } }, { with: { type: com.shop.free } } ] } }
  - told:
      call: mail
      with: { to: '${ .[0].by }' }
";
    fs::write(place.0.path().join("paid.yaml"), flow).unwrap();
    let stubs = "
tools: { mail: { result: sent } }
steps:
  paid-0: { result: { specversion: '1.0', source: bank, data: { by: ann } }, after: 5m }
  paid-1: { never: true }
";
    fs::write(place.0.path().join("stubs.yaml"), stubs).unwrap();
    let (code, text) = place.says(&["check", "paid.yaml"]);
    assert!(code == 0 && text.contains("is valid (cncf,"), "{text}");
    let (code, text) = place.says(&["run", "paid.yaml", "--dry-run", "--stub", "stubs.yaml"]);
    assert!(code == 0 && text.contains("output: \"sent\""), "{text}");
    assert!(text.contains("mail {\"to\":\"ann\"}") && text.contains("virtual time: 5m"), "{text}");
}

/// Documents are deployed whole or not at all, and started by the name of their flow.
#[test]
fn deploy_checks_first_and_run_starts_by_name() {
    let place = Place::new();
    let workflow = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        command.args(arguments).args(["--to", "runs.db", "--utc"]).current_dir(place.0.path());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let json = |arguments: &[&str]| -> Value {
        let (_, text) = workflow(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let (code, text) = workflow(&["flow", "deploy", "good.yaml"]);
    assert_eq!(code, 9, "the database is not there: {text}");
    assert_eq!(workflow(&["migrate"]).0, 0);

    let (code, text) = workflow(&["flow", "deploy", "good.yaml", "bad.yaml"]);
    assert_eq!(code, 1);
    assert!(text.contains("bad.yaml:6:5: error F010") && text.contains("bad.yaml:8:"), "all findings: {text}");
    assert_eq!(json(&["flow", "deploy", "bad.yaml"])[0]["findings"][0]["code"], "F010");
    assert_eq!(workflow(&["flow", "deploy", "good.yaml", "good.yaml"]).0, 2, "one name twice");
    assert_eq!(workflow(&["flow", "deploy", "good.yaml", "--name", "other"]).0, 2);
    assert_eq!(workflow(&["flow", "deploy", "good.yaml", "--version", "a b"]).0, 2);
    assert_eq!(workflow(&["flow", "deploy", "missing.yaml"]).0, 2);
    assert_eq!(json(&["flow", "list"]), serde_json::json!([]), "nothing was deployed");

    let (code, text) = workflow(&["flow", "deploy", "good.yaml", "--actor", "ann"]);
    assert!(code == 0 && text.contains("hello") && text.contains("deployed"), "{text}");
    assert_eq!(json(&["flow", "deploy", "good.yaml"])[0]["is_new"], false, "an equal digest is no new version");
    let second = GOOD.replace("name: hello", "name: hello\ndescription: Greets.");
    fs::write(place.0.path().join("second.yaml"), second).unwrap();
    assert_eq!(json(&["flow", "deploy", "second.yaml", "--version", "2.0"])[0]["version"], "2.0");
    let (code, text) = workflow(&["flow", "deploy", "good.yaml", "--version", "2.0"]);
    assert!(code == 1 && text.contains("F310"), "{text}");
    let listed = json(&["flow", "list"]);
    assert_eq!((&listed[0]["version"], &listed[0]["description"]), (&"2.0".into(), &"Greets.".into()));
    let versions = json(&["flow", "list", "hello"]);
    assert_eq!((&versions[1]["version"], &versions[1]["created_by"]), (&"1".into(), &"ann".into()));
    assert_eq!(workflow(&["flow", "list", "none"]).0, 4);

    let (code, text) = workflow(&["flow", "run", "none"]);
    assert!(code == 4 && text.contains("no file \"none\""), "{text}");
    assert_eq!(workflow(&["flow", "run", "hello", "--version", "9"]).0, 4);
    let arguments = ["flow", "run", "hello", "--version", "1", "--key", "o-1", "--actor", "bob", "-o", "ids"];
    let (code, run) = workflow(&arguments);
    assert_eq!(code, 0, "{run}");
    assert_eq!(workflow(&arguments).1, run, "the key is taken");
    let shown = json(&["runs", "show", run.trim()]).to_string();
    let parts = ["\"key\":\"hello/o-1\"", "\"flow\":\"hello\"", "\"flow_version\":\"1\"", "\"actor\":\"bob\""];
    for part in parts.into_iter().chain(["\"version\":\"1\""]) {
        assert!(shown.contains(part) || shown.contains(&part.replace('"', "\\\"")), "{part}: {shown}");
    }
}
