//! Where a request comes from: this machine, a page of another site, or elsewhere.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

/// Returns `true` if a program or a browser on this machine sent the request, as far as is known.
pub(crate) fn is_local(parts: &Parts) -> bool {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.is_some_and(|ConnectInfo(peer)| peer.ip().to_canonical().is_loopback())
        && names_this_machine(&parts.headers)
        && !tells_of_a_proxy(&parts.headers)
}

fn tells_of_a_proxy(headers: &HeaderMap) -> bool {
    ["forwarded", "via", "x-forwarded-for", "x-real-ip"].iter().any(|name| headers.contains_key(*name))
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns `true` if a page of another site may have sent the request. Browsers say where a request
/// comes from; programs do not.
pub(crate) fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let host = text("host").unwrap_or_default();
    text("origin").is_some_and(|origin| origin.split_once("://").map(|(_, of)| of) != Some(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &'static str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| (name.parse().unwrap_or(header::VIA), axum::http::HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "localhost:7777", "LOCALHOST:1", "127.0.0.1:80", "[::1]:7777", "127.1.2.3"] {
            assert!(names_this_machine(&headers(&[("host", host)])), "{host}");
        }
        for host in ["evil.example", "evil.example:7777", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.nip.io"]
        {
            assert!(!names_this_machine(&headers(&[("host", host)])), "{host}");
        }
        assert!(!names_this_machine(&HeaderMap::new()));
        let is_local = |name: &str| {
            let request = axum::http::Request::get("/").header("host", "localhost").header(name, "192.0.2.7");
            let request = request.extension(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 5000))));
            request.body(()).is_ok_and(|request| is_local(&request.into_parts().0))
        };
        assert!(is_local("accept"));
        assert!(!["forwarded", "via", "x-forwarded-for", "x-real-ip"].into_iter().any(is_local), "behind a proxy");
    }

    #[test]
    fn pages_of_other_sites_are_told_from_programs() {
        let other = |of: &[(&'static str, &'static str)]| is_of_another_site(&headers(of));
        assert!(!other(&[]), "a program");
        assert!(!other(&[("host", "a:1"), ("origin", "http://a:1")]));
        assert!(other(&[("host", "a:1"), ("origin", "http://b")]));
        assert!(other(&[("host", "a:1"), ("origin", "null")]));
        assert!(other(&[("sec-fetch-site", "cross-site")]) && other(&[("sec-fetch-site", "same-site")]));
        assert!(!other(&[("sec-fetch-site", "same-origin")]));
    }
}
