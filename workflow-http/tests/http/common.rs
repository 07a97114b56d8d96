//! A server on a port of this machine, and requests to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use workflow_http::{Access, router};
use workflow_tests::Live;
use workflow_tests::document::check_answer;

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.text))
    }

    /// Returns the path to which the header `Location` leads from the path of the request.
    pub(crate) fn location(&self, path: &str) -> String {
        let to = self.head.lines().find_map(|line| line.strip_prefix("location: "));
        let to = to.unwrap_or_else(|| panic!("there is no Location: {}", self.head));
        let mut parts: Vec<&str> = path.split('?').next().unwrap_or_default().split('/').collect();
        parts.pop();
        for part in to.split('/') {
            if part == ".." {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        parts.join("/")
    }

    /// Checks that this is a problem with the code, which says how to go on.
    pub(crate) fn refuses(&self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["code"].as_str()), (status, Some(code)), "{problem}");
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        assert_eq!(problem["status"], status);
        for field in ["title", "detail", "help"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        problem
    }
}

/// A server on a port of this machine.
pub(crate) struct Server {
    address: SocketAddr,
    token: Option<&'static str>,
}

impl Server {
    pub(crate) async fn start(live: &Live, access: Access) -> Self {
        Self::serve(router(live.client.clone(), access)).await
    }

    /// Serves these routes below a prefix.
    pub(crate) async fn serve(routes: axum::Router) -> Self {
        let app = axum::Router::new().nest("/workflows", routes);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { address, token: None }
    }

    pub(crate) fn with(self, token: &'static str) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut head =
            format!("{method} /workflows{path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if let Some(token) = self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let api = path.strip_prefix("/api/v1").filter(|path| *path != "/openapi.json");
        if let Some(path) = api.filter(|_| status != 405 && !path.ends_with("/nothing")) {
            check_answer(method, path, status, text);
        }
        Response { status, head: head.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.send("POST", path, &[("Content-Type", "application/json")], &body.to_string())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Response {
        self.send("PUT", path, &[("Content-Type", "application/json")], &body.to_string())
    }

    pub(crate) fn start_run(&self, body: &Value) -> String {
        let response = self.post("/api/v1/runs", body);
        assert_eq!(response.status, 201, "{}", response.text);
        response.json()["run"].as_str().unwrap().to_owned()
    }
}

/// Opens the deployed flows in the database of a case.
#[cfg(feature = "flows")]
pub(crate) async fn flow_store(live: &Live) -> workflow_flows::FlowStore {
    use workflow_flows::FlowStore;
    use workflow_sdk::sqlx;

    match live.schema() {
        None => FlowStore::connect(&live.url()).await.unwrap(),
        Some(schema) => {
            let options: sqlx::postgres::PgConnectOptions = live.url().parse().unwrap();
            let pool = sqlx::postgres::PgPoolOptions::new().max_connections(2);
            let pool = pool.connect_with(options.options([("search_path", schema)])).await.unwrap();
            FlowStore::with_postgres(pool).await.unwrap()
        }
    }
}

/// Runs blocking requests beside the server.
pub(crate) async fn beside<T: Send + 'static>(requests: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(requests).await.unwrap()
}
