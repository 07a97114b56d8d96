//! A proxy between clients and a PostgreSQL server. It parses the protocol, so that it can cut a
//! connection exactly at a COMMIT or at the reply to it.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub use self::fault::{Delivered, Fault, Moment};
use self::path::Path;

mod fault;
mod frame;
mod link;
mod path;

/// A port of this host that forwards connections to a server. It runs on its own thread, so that a
/// load on its user's runtime does not slow it down. The drop ends it with all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    options: PgConnectOptions,
    path: Arc<Path>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Creates a proxy to the server of this URL, which must name a host by its IP address.
    ///
    /// # Errors
    /// If the URL does not name an IP address, or no port is free.
    pub fn to(url: &str) -> io::Result<Self> {
        let options = PgConnectOptions::from_str(url).map_err(io::Error::other)?;
        let host = options.get_host().parse().map_err(|_| io::Error::other("the URL must name an IP address"))?;
        let path = Arc::new(Path::new(SocketAddr::new(host, options.get_port())));
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let passes = Arc::clone(&path);
        let thread = std::thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, passes) => {}
                }
            });
        })?;
        Ok(Self { address, options, path, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the URL of the server through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        let options = self.options.clone().host(&self.address.ip().to_string()).port(self.address.port());
        options.to_url_lossy().to_string()
    }

    /// Causes this fault once, at the next such moment. Replaces a fault that has not happened yet.
    pub fn arm(&self, fault: Fault, moment: Moment) {
        self.path.arm(fault, moment);
    }

    /// Lets everything pass again, except on connections that fell into a hole. A fault that has
    /// not happened yet is canceled.
    pub fn heal(&self) {
        self.path.heal();
    }

    /// Connects new connections to this server from now on.
    pub fn lead_to(&self, target: SocketAddr) {
        self.path.lead_to(target);
    }

    /// Ends every connection. Each side sees that the other one has closed it.
    pub fn cut(&self) {
        self.path.cut();
    }

    /// Returns the faults that happened, in order.
    #[must_use]
    pub fn delivered(&self) -> Vec<Delivered> {
        self.path.delivered()
    }

    /// Returns how many replies to a COMMIT reached a client.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.path.commits()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, path: Arc<Path>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    links.spawn(link::pass(Arc::clone(&path), client));
                }
            }
            Some(_) = links.join_next() => {}
        }
    }
}
