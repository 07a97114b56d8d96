//! Input, words, variables and folders of programs, and their results.

use serde_json::json;
use workflow_flows::{ErrorClass, ToolCall};

use crate::{block_on, builder, call, directory, error, script, shell};

pub(crate) fn a_program_gets_words_and_input() {
    let root = directory();
    let shell = shell(root.path());
    let result = block_on(call(&shell, json!({ "program": "cat", "stdin": { "n": [1, "x"] } }))).unwrap();
    let expected = json!({
        "exit_code": 0, "stdout": "{\"n\":[1,\"x\"]}", "stdout_cut": false, "stderr": "", "stderr_cut": false,
    });
    assert_eq!(result, expected);
    let result = block_on(call(&shell, json!({ "program": "cat", "stdin": "a; $(id)" }))).unwrap();
    assert_eq!(result["stdout"], "a; $(id)");
    let words = json!({ "program": "printf", "args": ["%s|", "$HOME; `id`", "", "b c"] });
    assert_eq!(block_on(call(&shell, words)).unwrap()["stdout"], "$HOME; `id`||b c|", "no shell reads the words");
    let unread = json!({ "program": "printf", "args": ["x"], "stdin": "y".repeat(1 << 20) });
    assert_eq!(block_on(call(&shell, unread)).unwrap()["stdout"], "x", "the input need not be read");
}

pub(crate) fn the_environment_is_what_the_operator_names() {
    // This process has more: cargo's variables, for example.
    assert!(std::env::vars().count() > 5);
    let root = directory();
    let shell = builder(root.path())
        .variable("LANG", "C")
        .variable("WHO", "the operator")
        .settable_variable("GREETING")
        .settable_variable("TOKEN")
        .variables_of(|actor| vec![("TOKEN".to_owned(), format!("of-{actor}"))])
        .build()
        .unwrap();
    let args = json!({ "program": "env", "env": { "GREETING": "hi", "TOKEN": "of-bob" } });
    let result = block_on(call(&shell, args)).unwrap();
    let mut lines: Vec<&str> = result["stdout"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    let mark = lines.pop().unwrap();
    assert!(mark.starts_with("WORKFLOW_TOOL_CALL="), "{mark}");
    let expected = [
        "GREETING=hi",
        "IDEMPOTENCY_KEY=run-1/charge",
        "LANG=C",
        "PATH=/usr/bin:/bin",
        "TOKEN=of-ann",
        "WHO=the operator",
    ];
    assert_eq!(lines, expected);
}

pub(crate) fn folders_stay_below_the_root() {
    let (root, outside) = (directory(), directory());
    std::fs::create_dir(root.path().join("sub")).unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
    let shell = shell(root.path());
    let with = |folder: &str| json!({ "program": "sh", "args": ["-c", "pwd -P"], "folder": folder });
    let real = root.path().canonicalize().unwrap();
    for (folder, expected) in [("sub", real.join("sub")), (".", real.clone()), ("sub/.", real.join("sub"))] {
        let result = block_on(call(&shell, with(folder))).unwrap();
        assert_eq!(result["stdout"].as_str().unwrap().trim(), expected.to_str().unwrap());
    }
    for folder in ["..", "sub/../..", "/", "/tmp", "link", "link/..", "absent", "", "a\0b"] {
        let refused = error(&shell, with(folder));
        assert_eq!(refused.class, ErrorClass::Invalid, "{folder:?}: {refused}");
    }
}

pub(crate) fn exit_codes_and_signals_fail_the_call() {
    let root = directory();
    let shell = shell(root.path());
    let mut args = script("echo failing >&2; exit 3");
    let failed = error(&shell, args.clone());
    assert_eq!(failed.class, ErrorClass::Failed);
    assert!(failed.message.ends_with("ended with exit code 3: ***"), "the word stood in the call: {failed}");
    args["accept"] = json!([2, 3]);
    let result = block_on(call(&shell, args)).unwrap();
    assert_eq!((&result["exit_code"], &result["stderr"]), (&json!(3), &json!("failing\n")));
    let killed = error(&shell, script("kill -KILL $$"));
    assert!(killed.class == ErrorClass::Failed && killed.message.contains("signal 9"), "{killed}");
}

pub(crate) fn no_error_holds_a_secret() {
    let root = directory();
    let shell = builder(root.path())
        .variable("OPERATORS", "hunter-1")
        .variables_of(|_| vec![("ACTORS".to_owned(), "hunter-2".to_owned())])
        .settable_variable("FLOWS")
        .build()
        .unwrap();
    let told = "echo told: $OPERATORS $ACTORS $FLOWS $0; cat; exit 1";
    let args = json!({
        "program": "sh", "args": ["-c", format!("exec >&2; {told}"), "hunter-4"],
        "stdin": "hunter-5", "env": { "FLOWS": "hunter-3" },
    });
    let failed = error(&shell, args.clone());
    assert!(!failed.message.contains("hunter"), "{failed}");
    for (field, value) in
        [("program", json!("hunter-6")), ("args", json!("hunter-6")), ("env", json!({ "FLOWS": ["hunter-6"] }))]
    {
        let mut args = args.clone();
        args[field] = value;
        let refused = error(&shell, args);
        assert!(!refused.message.contains("hunter-6"), "{refused}");
    }
    let shown = format!("{shell:?} {:?}", ToolCall::new(args, "ann", "key"));
    assert!(!shown.contains("hunter"), "{shown}");
}

pub(crate) fn the_action_of_the_dialects_keeps_exit_codes() {
    let root = directory();
    std::fs::create_dir(root.path().join("sub")).unwrap();
    let exec = shell(root.path()).action();
    let run = |args| block_on(call(exec.as_ref(), args));
    let result = run(json!({ "command": "sh", "args": ["-c", "exit 1"] })).unwrap();
    assert_eq!((&result["exit_code"], &result["killed"]), (&json!(1), &json!(false)));
    let result = run(json!({ "command": "cat", "stdin": "[1]" })).unwrap();
    assert_eq!((&result["stdout"], &result["stdout_raw"]), (&json!([1]), &json!("[1]")));
    let result = run(json!({ "command": "sh", "args": ["-c", "pwd"], "cwd": "sub" })).unwrap();
    assert!(result["stdout"].as_str().unwrap().ends_with("/sub\n"));
    let late = run(json!({ "command": "sh", "args": ["-c", "exec sleep 65.125"], "timeout": "300ms" })).unwrap();
    assert_eq!((&late["killed"], &late["exit_code"]), (&json!(true), &json!(-1)));
    for wrong in [json!({ "command": "cat", "cwd": "/" }), json!({ "command": "id", "shell": true })] {
        assert_eq!(error(exec.as_ref(), wrong).class, ErrorClass::Invalid);
    }
}
