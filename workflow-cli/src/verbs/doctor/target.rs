//! Where the database is named, and how a server lets callers in.

use std::net::IpAddr;

use crate::target::{NamedBy, Place};

use super::Finding;

/// Adds a line that says which database is looked at and where it is named, then a line per fault.
pub(super) fn examine(place: &Place, findings: &mut Vec<Finding>) {
    let Place { address, is_server, schema, has_token, naming } = place;
    let to = source(&naming.to, "--to");
    if !*is_server {
        let schema = match (schema, &naming.schema) {
            (None, _) => String::new(),
            (Some(schema), NamedBy::Program) => format!("; its schema is {schema}, by default"),
            (Some(schema), named_by) => format!("; its schema is {schema}, as {} says", source(named_by, "--schema")),
        };
        findings.push(Finding::ok(format!("the database is {address}, as {to} says{schema}")));
        return;
    }
    let token =
        if *has_token { format!("; its token comes from {}", source(&naming.token, "--token")) } else { String::new() };
    findings.push(Finding::ok(format!("the server is {address}, as {to} says{token}")));
    let host = host_of(address);
    if is_this_machine(host) {
        return;
    }
    if !*has_token {
        findings.push(Finding::warn(
            format!("the server at {host} answers without a token"),
            "start it with WORKFLOW_HTTP_TOKEN, unless its network or its proxy decides which callers reach it",
        ));
    } else if address.starts_with("http://") {
        findings.push(Finding::warn(
            format!("the token goes to {host} unencrypted"),
            "put TLS in front of the server, and name it by https://",
        ));
    }
}

fn source(named_by: &NamedBy, option: &str) -> String {
    match named_by {
        NamedBy::Option => option.to_owned(),
        NamedBy::Variable(variable) => format!("the variable {variable}"),
        NamedBy::Program => "the program".to_owned(),
    }
}

/// Returns the host of a URL, without its port.
fn host_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        Some((host, _)) => host,
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use crate::target::Naming;

    use super::*;

    fn found(place: &Place) -> Vec<String> {
        let mut findings = Vec::new();
        examine(place, &mut findings);
        findings.into_iter().map(|finding| finding.fact).collect()
    }

    fn server(address: &str, has_token: bool) -> Place {
        let naming = Naming { token: NamedBy::Variable("WORKFLOW_TOKEN".to_owned()), ..Naming::default() };
        Place { address: address.to_owned(), is_server: true, schema: None, has_token, naming }
    }

    #[test]
    fn a_place_says_where_it_is_named() {
        let mut place = Place {
            address: "postgres://db/orders".to_owned(),
            is_server: false,
            schema: Some("app".to_owned()),
            has_token: false,
            naming: Naming::default(),
        };
        let words = "the database is postgres://db/orders, as --to says; its schema is app, as --schema says";
        assert_eq!(found(&place), [words]);
        place.naming.to = NamedBy::Program;
        place.naming.schema = NamedBy::Program;
        let words = "the database is postgres://db/orders, as the program says; its schema is app, by default";
        assert_eq!(found(&place), [words]);
        let words = "the server is https://ops/x, as --to says; its token comes from the variable WORKFLOW_TOKEN";
        assert_eq!(found(&server("https://ops/x", true)), [words]);
    }

    #[test]
    fn a_server_that_anything_may_read_is_found() {
        for here in ["http://localhost:7777", "http://127.0.0.1:1/x", "http://[::1]:7777"] {
            assert_eq!((found(&server(here, true)).len(), found(&server(here, false)).len()), (1, 1), "{here}");
        }
        let open = found(&server("https://ops.example:8443/workflows", false));
        assert_eq!(open[1], "the server at ops.example answers without a token");
        let plain = found(&server("http://ops.example/workflows", true));
        assert_eq!(plain[1], "the token goes to ops.example unencrypted");
        assert_eq!(found(&server("https://ops.example", true)).len(), 1);
    }
}
