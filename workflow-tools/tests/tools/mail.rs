//! Mails are read back from an SMTP catcher (scripts/mcp installs it).

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use workflow_flows::ErrorClass;
use workflow_tests::until;
use workflow_tools::http::Http;
use workflow_tools::mail::{Encryption, Mail};

use crate::{call, node, servers};

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

struct Catcher {
    _child: Child,
    /// Kept open, because the catcher ends if it cannot write.
    _output: Lines<BufReader<ChildStdout>>,
    smtp: u16,
    web: u16,
}

impl Catcher {
    /// Another process may take a port before the catcher has it.
    async fn start() -> Self {
        for _ in 0..20 {
            if let Some(catcher) = Self::try_start().await {
                return catcher;
            }
        }
        panic!("the catcher does not start");
    }

    async fn try_start() -> Option<Self> {
        let (smtp, web) = (free_port(), free_port());
        let mut child = Command::new(node())
            .arg(servers().join("maildev/dist/bin/maildev.js"))
            .args([
                "--ip",
                "127.0.0.1",
                "--web-ip",
                "127.0.0.1",
                "--smtp",
                &smtp.to_string(),
                "--web",
                &web.to_string(),
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // The last line of the banner, which is written once both servers listen.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next_line().await.unwrap()?.contains("Ctrl+C") {}
        Some(Self { _child: child, _output: lines, smtp, web })
    }

    /// The first mail, once it has arrived.
    async fn mail(&self) -> Value {
        let http = Http::builder().allow_network("127.0.0.1".parse().unwrap()).build().unwrap();
        let args = json!({ "url": format!("http://127.0.0.1:{}/api/email", self.web) });
        until("the mail arrives", async || call(&http, args.clone()).await.unwrap()["body"].get(0).cloned()).await
    }
}

#[tokio::test]
async fn a_mail_arrives_as_it_was_written() {
    let catcher = Catcher::start().await;
    let mail = Mail::builder("127.0.0.1", "Flows <flows@a.test>")
        .port(catcher.smtp)
        .encryption(Encryption::None)
        .name("dept:billing", "billing@b.test")
        .domain("a.test")
        .build()
        .unwrap();
    let args = json!({
        "to": ["dept:billing", "Ann <ann@a.test>"], "subject": "Größe\r\nBcc: evil@c.test", "text": "Line ü\n.\nend",
        "html": "<b>hi</b>", "data": { "n": 1 },
    });
    let sent = call(&mail, args).await.unwrap();
    let got = catcher.mail().await;
    assert_eq!(got["subject"], "Größe Bcc: evil@c.test", "{got}");
    assert_eq!(got["from"][0]["address"], "flows@a.test");
    let to: Vec<&str> = got["to"].as_array().unwrap().iter().map(|to| to["address"].as_str().unwrap()).collect();
    assert_eq!(to, ["billing@b.test", "ann@a.test"]);
    assert_eq!(got["text"].as_str().unwrap().trim_end().replace("\r\n", "\n"), "Line ü\n.\nend");
    assert!(got["html"].as_str().unwrap().contains("<b>hi</b>"));
    let id = sent["message_id"].as_str().unwrap().trim_matches(['<', '>']);
    assert!(got["headers"]["message-id"].as_str().unwrap().contains(id), "{got}");
    assert!(!got.to_string().contains("\"evil@c.test\""), "no receiver was added: {got}");
    assert!(call(&mail, json!({ "to": "x@c.test", "text": "" })).await.is_err());
}

#[tokio::test]
async fn failures_of_the_server_have_classes() {
    let of = |answers: &'static [&'static str]| async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            for answer in answers {
                stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
                let mut line = String::new();
                stream.read_line(&mut line).await.unwrap();
            }
            // After a refusal the client says goodbye and waits for the answer.
            if answers.iter().any(|answer| answer.starts_with(['4', '5'])) {
                stream.write_all(b"221 bye\r\n").await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let builder = Mail::builder("127.0.0.1", "flows@a.test").port(port).encryption(Encryption::None);
        let mail = builder.timeout(Duration::from_millis(1_500)).build().unwrap();
        call(&mail, json!({ "to": "ann@a.test", "text": "hunter2" })).await.unwrap_err()
    };
    let permanent = of(&["220 hi", "250 ok", "250 ok", "550 no such user ann@a.test"]).await;
    assert_eq!(permanent.class, ErrorClass::Invalid, "{permanent}");
    assert!(!permanent.message.contains("ann@a.test"), "{permanent}");
    assert_eq!(of(&["220 hi", "250 ok", "451 later"]).await.class, ErrorClass::Unavailable);
    assert_eq!(of(&["220 hi", "250 ok"]).await.class, ErrorClass::Timeout);
    assert_eq!(of(&["SSH-2.0-OpenSSH"]).await.class, ErrorClass::Connection);
    let builder = Mail::builder("127.0.0.1", "flows@a.test").port(free_port()).encryption(Encryption::None);
    let mail = builder.build().unwrap();
    let error = call(&mail, json!({ "to": "ann@a.test", "text": "x" })).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Connection, "{error}");
}

#[tokio::test]
async fn a_password_is_not_sent_without_tls() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut seen = String::new();
        for answer in ["220 hi", "250-ok\r\n250 AUTH PLAIN LOGIN", "500 no", "500 no"] {
            if stream.write_all(format!("{answer}\r\n").as_bytes()).await.is_err()
                || stream.read_line(&mut seen).await.is_err()
            {
                break;
            }
        }
        seen
    });
    let builder = Mail::builder("127.0.0.1", "flows@a.test").port(port).encryption(Encryption::StartTls);
    let mail = builder.credentials("flows", "hunter2").timeout(Duration::from_secs(5)).build().unwrap();
    assert!(call(&mail, json!({ "to": "ann@a.test", "text": "x" })).await.is_err());
    drop(mail);
    let seen = seen.await.unwrap();
    assert!(!seen.contains("AUTH") && !seen.contains("MAIL"), "{seen}");
}
