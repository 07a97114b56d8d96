//! The limits of the kernel, and the bound of the output. The first test reads the limits; the
//! others meet them with programs that end by themselves.

use std::time::{Duration, Instant};

use serde_json::json;
use workflow_flows::ErrorClass;
use workflow_tools::shell::Limits;

use crate::{block_on, builder, call, directory, error, script, stdout};

pub(crate) fn the_kernel_has_the_limits() {
    let root = directory();
    let limits =
        Limits { memory: 512 << 20, processor_seconds: 7, file_size: 3 << 20, descriptors: 33, processes: 300 };
    let shell = builder(root.path()).limits(limits).readable("/proc").build().unwrap();
    // Blocks of files have 512 bytes, those of memory 1,024.
    let read = "for which in c t v f n; do ulimit -S$which; done; ulimit -Ht";
    assert_eq!(stdout(&shell, read), "0\n7\n524288\n6144\n33\n8\n");
    let status = block_on(call(&shell, json!({ "program": "cat", "args": ["/proc/self/status"] }))).unwrap();
    assert!(status["stdout"].as_str().unwrap().contains("\nNoNewPrivs:\t1\n"), "{status}");
    let limits = block_on(call(&shell, json!({ "program": "cat", "args": ["/proc/self/limits"] }))).unwrap();
    let processes = limits["stdout"].as_str().unwrap().lines().find(|line| line.starts_with("Max processes")).unwrap();
    assert_eq!(processes.split_whitespace().nth(2), Some("300"), "{processes}");
}

pub(crate) fn an_endless_output_is_cut() {
    let root = directory();
    let shell = builder(root.path()).output_limit(1).build().unwrap();
    for (stream, other) in [("stdout", "stderr"), ("stderr", "stdout")] {
        let to = if stream == "stderr" { ">&2" } else { "" };
        let result = block_on(call(&shell, script(&format!("yes | head -c 3000000 {to}; exit 0")))).unwrap();
        assert_eq!(result[stream], "y\n".repeat(512), "the program ends, and its beginning is kept");
        assert_eq!((&result[format!("{stream}_cut")], &result[format!("{other}_cut")]), (&json!(true), &json!(false)));
    }
    let whole = block_on(call(&shell, script("yes | head -c 1024; yes | head -c 1024 >&2"))).unwrap();
    assert_eq!((&whole["stdout_cut"], &whole["stderr_cut"]), (&json!(false), &json!(false)));
    let bytes = block_on(call(&shell, script("printf '\\377'"))).unwrap();
    assert_eq!((&bytes["stdout_base64"], &bytes["stdout"]), (&json!("/w=="), &json!(null)));
}

pub(crate) fn a_program_cannot_take_the_processor() {
    let root = directory();
    let limits = Limits { processor_seconds: 1, ..Limits::default() };
    let shell = builder(root.path()).limits(limits).build().unwrap();
    let begun = Instant::now();
    let refused = error(&shell, script("while :; do :; done"));
    assert_eq!(refused.class, ErrorClass::Timeout);
    assert!(refused.message.contains("took 1 s of processor time"), "{refused} after {:?}", begun.elapsed());
    let deaf = error(&shell, script("trap '' XCPU; while :; do :; done"));
    assert!(deaf.message.contains("signal 9"), "{deaf}");
}

pub(crate) fn a_program_cannot_fill_the_disk() {
    let root = directory();
    let limits = Limits { file_size: 1_000_000, ..Limits::default() };
    let shell = builder(root.path()).limits(limits).build().unwrap();
    let size = stdout(&shell, "trap '' XFSZ; head -c 5000000 /dev/zero > big 2> errors; wc -c < big");
    assert_eq!(size.trim(), "1000000");
    let refused = error(&shell, script("exec head -c 5000000 /dev/zero > big"));
    assert!(refused.message.contains("a file of more than 1000000 bytes"), "{refused}");
}

pub(crate) fn a_program_cannot_fill_the_memory() {
    let root = directory();
    // `tail` keeps a line without an end in memory.
    let fills = script("head -c 200000000 /dev/zero | tail -n 1 | wc -c; exit 0");
    let whole = block_on(call(&builder(root.path()).build().unwrap(), fills.clone())).unwrap();
    assert_eq!(whole["stdout"], "200000000\n", "it fits into the default");
    let limits = Limits { memory: 100 << 20, ..Limits::default() };
    let result = block_on(call(&builder(root.path()).limits(limits).build().unwrap(), fills)).unwrap();
    assert_eq!(result["stdout"], "0\n", "{result}");
    assert!(result["stderr"].as_str().unwrap().contains("memory exhausted"), "{result}");
}

pub(crate) fn a_program_cannot_start_many_processes() {
    let root = directory();
    let five = "for n in 1 2 3 4 5; do sleep 0.2 & done; wait; echo started";
    let begun = Instant::now();
    assert_eq!(stdout(&builder(root.path()).build().unwrap(), five), "started\n");
    let limits = Limits { processes: 3, descriptors: 8, ..Limits::default() };
    let shell = builder(root.path()).limits(limits).build().unwrap();
    let refused = error(&shell, script(five));
    assert_eq!(refused.class, ErrorClass::Failed, "{refused}");
    assert!(refused.message.contains("exit code"), "{refused}");
    let opened = error(&shell, script("exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null"));
    assert_eq!(opened.class, ErrorClass::Failed, "{opened}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}
