//! Files and servers that landlock keeps from programs, although their account may reach them.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use workflow_tools::shell::Shell;

use crate::{block_on, builder, call, directory, script, stdout};

pub(crate) fn a_program_reads_and_writes_only_what_it_may() {
    let (root, outside) = (directory(), directory());
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "hunter2").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o666)).unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
    let shell = builder(root.path()).build().unwrap();
    let fails = |shell: &Shell, text: &str| block_on(call(shell, script(text))).is_err();
    let place = outside.path().display();
    assert_eq!(stdout(&shell, "umask 022; echo x > new; mkdir folder; mv new folder/new; cat folder/new"), "x\n");
    assert!(fails(&shell, &format!("cat {place}/secret")), "it reads outside");
    assert!(fails(&shell, "cat link/secret"), "it reads over a link");
    assert!(fails(&shell, "cat /etc/passwd"), "it reads the settings of the system");
    assert!(fails(&shell, "cat /proc/1/cmdline"), "it reads other processes");
    assert!(fails(&shell, &format!("ls {place}")), "it lists outside");
    for text in [
        format!("echo x > {place}/new"),
        "echo x > link/new".to_owned(),
        format!("echo x >> {place}/secret"),
        format!("mkdir {place}/folder"),
        format!("mv folder/new {place}/new"),
        format!("ln -s / {place}/new"),
        format!("rm -f {place}/secret; ! test -e {place}/secret"),
        format!("truncate -s 0 {place}/secret"),
    ] {
        assert!(fails(&shell, &text), "{text}");
    }
    let entries = std::fs::read_dir(outside.path()).unwrap().count();
    assert_eq!((entries, std::fs::read_to_string(&secret).unwrap().as_str()), (1, "hunter2"));
    let opened = builder(root.path()).readable(outside.path()).build().unwrap();
    assert_eq!(stdout(&opened, &format!("cat {place}/secret")), "hunter2");
    assert!(fails(&opened, &format!("echo x > {place}/new")), "what it reads it does not write");
    if rustix::process::getuid().is_root() {
        let as_root = Shell::builder(root.path()).program("cat", "/bin/cat").allow_root(true).build().unwrap();
        let read = json!({ "program": "cat", "args": ["/etc/shadow"] });
        assert!(block_on(call(&as_root, read)).is_err(), "root is confined, too");
    }
}

pub(crate) fn a_program_reaches_no_server() {
    let bash = Path::new("/bin/bash");
    if !bash.is_file() {
        println!("NOT CHECKED: bash is not installed, which opens connections without another program");
        return;
    }
    let root = directory();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connects = json!({ "program": "bash", "args": ["-c", format!("exec 3<>/dev/tcp/127.0.0.1/{port}")] });
    let closed = builder(root.path()).program("bash", bash).build().unwrap();
    let refused = block_on(call(&closed, connects.clone())).unwrap_err();
    assert!(refused.message.contains("exit code"), "{refused}");
    let open = builder(root.path()).program("bash", bash).allow_network(true).build().unwrap();
    block_on(call(&open, connects)).unwrap();
}
