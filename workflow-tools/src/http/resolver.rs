//! Finds the addresses of hosts, and returns only those that a request may reach.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::Reach;

/// A host has no address that a request may reach.
#[derive(Debug, thiserror::Error)]
#[error("the host has only private addresses")]
pub(super) struct Unreachable;

/// The resolver of the system behind a filter. The client connects to the addresses that it returns
/// and resolves no name again, so a name that changes between check and use gains nothing.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(super) reach: Arc<Reach>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = Arc::clone(&self.reach);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| reach.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err(Unreachable.into());
            }
            let allowed: Addrs = Box::new(allowed.into_iter());
            Ok(allowed)
        })
    }
}
