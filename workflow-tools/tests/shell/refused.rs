//! Calls that start no program, and tools that are not made.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use workflow_flows::{ErrorClass, Tool};
use workflow_tools::shell::{Shell, ShellError};

use crate::{builder, directory, error, shell};

pub(crate) fn only_listed_programs_run() {
    let root = directory();
    let closed = Shell::builder(root.path()).allow_root(true).build().unwrap();
    for program in ["cat", "/bin/cat", "sh", ""] {
        assert_eq!(error(&closed, json!({ "program": program })).class, ErrorClass::Invalid, "{program}");
    }
    let shell = shell(root.path());
    for program in ["/bin/cat", "../bin/cat", "id", "cat ", "CAT"] {
        let refused = error(&shell, json!({ "program": program }));
        assert_eq!(refused.class, ErrorClass::Invalid, "{program}");
        assert!(refused.message.contains("[cat, env, printf, sh]"), "{refused}");
    }
    let names = &shell.input_schema()["properties"]["program"]["enum"];
    assert_eq!(*names, json!(["cat", "env", "printf", "sh"]));
}

pub(crate) fn arguments_that_do_not_fit_are_refused() {
    let root = directory();
    let shell = shell(root.path());
    for args in [
        json!({}),
        json!([]),
        json!({ "program": "cat", "args": "x" }),
        json!({ "program": "cat", "argv": ["x"] }),
        json!({ "program": "cat", "args": ["a\0b"] }),
        json!({ "program": "cat", "env": { "LD_PRELOAD": "/tmp/x.so" } }),
        json!({ "program": "cat", "env": { "PATH": "/tmp" } }),
        json!({ "program": "cat", "env": { "WORKFLOW_TOOL_CALL": "x" } }),
        json!({ "program": "cat", "timeout": "soon" }),
        json!({ "program": "cat", "args": ["x".repeat(4 << 20)] }),
        json!({ "program": "cat", "accept": ["all"] }),
    ] {
        let refused = error(&shell, args.clone());
        assert_eq!(refused.class, ErrorClass::Invalid, "{refused}");
    }
}

pub(crate) fn a_tool_that_cannot_be_bounded_is_not_made() {
    let root = directory();
    let relative = builder(root.path()).program("cat", "bin/cat").build().unwrap_err();
    assert!(matches!(relative, ShellError::NotAProgram { .. }), "{relative}");
    let folder = builder(root.path()).program("bin", "/bin").build().unwrap_err();
    assert!(matches!(folder, ShellError::NotAProgram { .. }), "{folder}");
    let absent = builder(&root.path().join("absent")).build().unwrap_err();
    assert!(matches!(absent, ShellError::Root { .. }), "{absent}");
    let file = builder("/bin/cat".as_ref()).build().unwrap_err();
    assert!(matches!(file, ShellError::Root { .. }), "{file}");
    let as_root = Shell::builder(root.path()).user(0, 0).build().unwrap_err();
    assert!(matches!(as_root, ShellError::RunsAsRoot), "{as_root}");
}

pub(crate) fn a_helper_that_is_none_is_found_out() {
    let root = directory();
    for helper in ["/bin/true", "/bin/false", "/bin/echo", "/no/such/program"] {
        let shell = builder(root.path()).helper(helper).build().unwrap();
        let refused = error(&shell, json!({ "program": "cat" }));
        assert_eq!(refused.class, ErrorClass::Unavailable, "{helper}: {refused}");
        assert!(refused.message.contains("helper"), "{helper}: {refused}");
    }
    // A program that is there when the tool is made, and cannot be executed when it is called.
    let program = root.path().join("program");
    std::fs::write(&program, "\u{1}").unwrap();
    let shell = builder(root.path()).program("own", &program).build().unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(error(&shell, json!({ "program": "own" })).class, ErrorClass::Unavailable);
    std::fs::remove_file(&program).unwrap();
    let gone = error(&shell, json!({ "program": "own" }));
    assert!(gone.class == ErrorClass::Unavailable && gone.message.contains("No such file"), "{gone}");
}
