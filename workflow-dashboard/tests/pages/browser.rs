//! A browser without a script: it keeps cookies and sends forms.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use workflow_dashboard::{Access, router};
use workflow_tests::Live;

pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Page {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> &Self {
        assert!(self.text.contains(text), "{text:?} is not on the page:\n{}\n{}", self.head, self.text);
        self
    }

    #[track_caller]
    pub(crate) fn hides(&self, text: &str) -> &Self {
        assert!(!self.text.contains(text), "{text:?} is on the page");
        self
    }

    /// Checks that this is a page, complete and without scripts or styles of its own.
    #[track_caller]
    pub(crate) fn is_page(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        self.shows("<!DOCTYPE html>").hides(" style=").hides(" onclick=").hides("<style");
        for script in self.text.split("<script").skip(1) {
            assert!(script.starts_with(" type=\"module\" src=\"/workflows/assets/app-"), "{script}");
        }
        let policy = self.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        self
    }

    /// Returns the fields of the last form on the page, as a browser sends them.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        let form = self.text.rsplit("<form class=\"order\"").next().unwrap().split("</form>").next().unwrap();
        let plain =
            |text: &str| text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        let mut fields = Vec::new();
        for tag in form.split('<') {
            let of = |name: &str| Some(plain(tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0));
            let Some(name) = of("name") else { continue };
            let inner = tag.split_once('>').filter(|_| tag.starts_with("textarea"));
            let value = inner.map(|(_, text)| plain(text)).or_else(|| of("value"));
            fields.push((name, value.unwrap_or_default()));
        }
        fields
    }

    /// Returns the size of the text once it is compressed, in bytes.
    pub(crate) fn compressed(&self) -> usize {
        compressed(self.text.as_bytes())
    }

    /// Returns the first address on the page that follows this text.
    pub(crate) fn link_behind(&self, text: &str) -> String {
        let rest = self.text.split(text).nth(1).unwrap_or_else(|| panic!("no {text:?} in {}", self.text));
        let link = rest.split("href=\"").nth(1).unwrap().split('"').next().unwrap();
        link.strip_prefix("/workflows").unwrap().replace("&amp;", "&")
    }
}

pub(crate) struct Browser {
    address: SocketAddr,
    cookie: String,
}

impl Browser {
    pub(crate) async fn start(live: &Live, access: Access) -> Self {
        Self::serve(router(live.client.clone(), access)).await
    }

    /// Serves these pages.
    pub(crate) async fn serve(pages: axum::Router) -> Self {
        let app = axum::Router::new().nest("/workflows", pages);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { address, cookie: String::new() }
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut head =
            format!("{method} /workflows{path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if !self.cookie.is_empty() {
            head.push_str(&format!("Cookie: workflow_token={}\r\n", self.cookie));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Page { status, head: head.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Page {
        self.send("GET", path, &[], "")
    }

    /// Reads the token that the next forms repeat.
    pub(crate) fn visit(&mut self) {
        let page = self.get("");
        let cookie = page.header("set-cookie").unwrap_or_else(|| panic!("{}", page.head));
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
        self.cookie = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
    }

    /// Sends a form as the browser does that has it on a page.
    pub(crate) fn submit(&self, fields: &[(&str, &str)]) -> Page {
        let token = self.cookie.clone();
        self.submit_from(&[("Sec-Fetch-Site", "same-origin")], &token, fields)
    }

    /// Sends the last form of a page, with another value in one of its fields.
    pub(crate) fn submit_again(&self, page: &Page, name: &str, value: &str) -> Page {
        let mut fields = page.fields();
        let other = fields.iter_mut().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no field {name}"));
        other.1 = value.to_owned();
        let token = fields.iter().position(|(name, _)| name == "token").unwrap();
        let (_, token) = fields.remove(token);
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.submit_from(&[("Sec-Fetch-Site", "same-origin")], &token, &fields)
    }

    pub(crate) fn submit_from(&self, headers: &[(&str, &str)], token: &str, fields: &[(&str, &str)]) -> Page {
        let fields = [&[("token", token)], fields].concat();
        let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let headers = [&[("Content-Type", "application/x-www-form-urlencoded")], headers].concat();
        self.send("POST", "/orders", &headers, &pairs.join("&"))
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Runs blocking requests beside the server.
pub(crate) async fn beside<T: Send + 'static>(requests: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(requests).await.unwrap()
}

/// Returns the size of some bytes once `gzip` has compressed them.
pub(crate) fn compressed(bytes: &[u8]) -> usize {
    use std::process::{Command, Stdio};
    let mut gzip = Command::new("gzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut into = gzip.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || into.write_all(&bytes).unwrap());
    let length = gzip.wait_with_output().unwrap().stdout.len();
    writer.join().unwrap();
    length
}
