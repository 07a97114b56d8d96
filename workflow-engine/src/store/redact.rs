//! URLs without their secrets.

/// The text that replaces a secret.
const HIDDEN: &str = "***";

/// Parameters whose values may be shown, in lower case. `options` is not among them, because it can
/// set anything.
const HARMLESS: [&str; 17] = [
    "application_name",
    "cache",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "immutable",
    "mode",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "target_session_attrs",
    "user",
    "vfs",
];

/// Returns the URL without its password, so that it may be shown. It hides the value of every
/// parameter that is not known to be harmless, because a password may stand behind a mistyped name.
/// It hides too much of a text that is not a URL, rather than too little.
#[must_use]
pub fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return redact_text(url) };
    let pairs = |query: &str| query.split('&').map(redact_pair).collect::<Vec<_>>().join("&");
    match rest.split_once('?').map(|(place, query)| (place, query, pairs(query))) {
        Some((place, query, redacted)) if query != redacted => {
            // Without an @, a password that holds a question mark looks like a port.
            let is_query = || query.split('&').all(|pair| pair.contains('=') && !pair.contains('@'));
            let is_known = place.contains('@') || !place.contains(':') || is_query() && has_port(place);
            let place = if is_known { redact_user(place) } else { HIDDEN.into() };
            format!("{scheme}://{place}?{redacted}")
        }
        _ => format!("{scheme}://{}", redact_user(rest)),
    }
}

fn has_port(place: &str) -> bool {
    let Some((name, port)) = place.split('/').next().and_then(|host| host.rsplit_once(':')) else { return false };
    let is_address = name.starts_with('[');
    is_address && port.ends_with(']')
        || (is_address || !name.contains(':')) && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

/// The last @ ends the user part: a password may hold an @ that was not escaped, even with slashes
/// around it.
fn redact_user(place: &str) -> String {
    let Some(at) = place.rfind('@') else { return place.to_owned() };
    let user_end = [place[..at].find(':'), place[..at].to_ascii_lowercase().find("%3a")].into_iter().flatten().min();
    match user_end {
        Some(end) => format!("{}:{HIDDEN}{}", &place[..end], &place[at..]),
        None => place.to_owned(),
    }
}

/// PostgreSQL also accepts the password as a parameter.
fn redact_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) if is_harmless(&unescaped(name)) && !unescaped(value).contains('@') => pair.to_owned(),
        Some((name, _)) if name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.+%".contains(&b)) => {
            format!("{name}={HIDDEN}")
        }
        Some(_) => HIDDEN.into(),
        None if pair.is_empty() => String::new(),
        None => HIDDEN.into(),
    }
}

/// Hides the secrets of a text that is not a URL: a list of parameters (`host=db password=secret`),
/// or a mistyped URL.
fn redact_text(text: &str) -> String {
    if text.contains(['@', '=']) || text.contains(':') && !text.starts_with("sqlite:") {
        let scheme = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        return format!("{scheme}{HIDDEN}");
    }
    text.to_owned()
}

fn is_harmless(name: &str) -> bool {
    HARMLESS.iter().any(|harmless| name.trim().eq_ignore_ascii_case(harmless))
}

/// Returns the name or the value of a parameter as the driver reads it.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).filter(|_| *first == b'%');
        let value = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(value.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if value.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://ann:secret@db/app", "postgres://ann:***@db/app"),
            ("postgres://ann:se@cret@db/app", "postgres://ann:***@db/app"),
            ("postgres://ann:se/cr@db/app", "postgres://ann:***@db/app"),
            ("postgres://ann:se%40cret@db:5432/app", "postgres://ann:***@db:5432/app"),
            ("postgres://ann%3Asecret@db/app", "postgres://ann:***@db/app"),
            ("postgres://ann%3asecret@db/app", "postgres://ann:***@db/app"),
            ("postgres://:secret@db/app", "postgres://:***@db/app"),
            ("postgres://ann:@db/app", "postgres://ann:***@db/app"),
            ("postgres://ann:secret@[::1]:5432/app", "postgres://ann:***@[::1]:5432/app"),
            ("postgres://ann:secret?x@db/app", "postgres://***?***"),
            ("postgres://ann:secret@/secret@db/app", "postgres://ann:***@db/app"),
            ("postgres://ann:secret#x@db/app", "postgres://ann:***@db/app"),
            ("postgresql://ann:secret@/app?host=/run", "postgresql://ann:***@/app?host=/run"),
            ("postgres://ann@db/app", "postgres://ann@db/app"),
            ("postgres://db/app?user=ann&password=secret", "postgres://db/app?user=ann&password=***"),
            ("postgres://db/app?PassWord=secret&user=ann", "postgres://db/app?PassWord=***&user=ann"),
            ("postgres://db/app?p%61ssword=secret", "postgres://db/app?p%61ssword=***"),
            ("postgres://db/app?user=ann&password=a@secret", "postgres://db/app?user=ann&password=***"),
            // An `@` behind a colon may end a password.
            ("postgres://db:5432/app?user=a&password=a@secret", "postgres://***?user=a&password=***"),
            ("postgres://[::1]/app?password=secret", "postgres://[::1]/app?password=***"),
            ("postgres://ann:secret?password=x@db", "postgres://***?password=***"),
            ("postgres://ann:secret@db/app?password=secret", "postgres://ann:***@db/app?password=***"),
            ("postgres://db/app?sslpassword=secret", "postgres://db/app?sslpassword=***"),
            ("postgres://db/app?password=", "postgres://db/app?password=***"),
            ("postgres://db/app?options=-c%20a.key%3Dsecret", "postgres://db/app?options=***"),
            ("postgres://db/app?pasword=secret&user=ann", "postgres://db/app?pasword=***&user=ann"),
            ("postgres://db/app?Password%20=secret", "postgres://db/app?Password%20=***"),
            ("postgres://db/app?host=ann:secret@db", "postgres://db/app?host=***"),
            ("postgres://db/app?user=ann%40secret", "postgres://db/app?user=***"),
            ("postgres://db/app?secret", "postgres://db/app?***"),
            ("postgres://db/app?sslmode=require&port=5433", "postgres://db/app?sslmode=require&port=5433"),
            ("sqlite://orders.db?mode=rwc", "sqlite://orders.db?mode=rwc"),
            ("sqlite://orders.db?key=secret", "sqlite://orders.db?key=***"),
            ("postgres:ann:secret", "postgres***"),
            ("host=db pasword=secret", "host***"),
            ("postgres:ann:secret@db/app", "postgres***"),
            ("postgres:/ann:secret@db/app", "postgres***"),
            ("host=db user=ann password=secret", "host***"),
            ("ann:secret@db", "ann***"),
            ("mysql://ann:secret@db/app", "mysql://ann:***@db/app"),
            ("sqlite://orders.db", "sqlite://orders.db"),
            ("sqlite::memory:", "sqlite::memory:"),
            ("", ""),
            ("%", "%"),
        ] {
            let redacted = redact(url);
            assert!(!redacted.contains("secret") && !redacted.contains("cret@"), "{url} is shown as {redacted}");
            assert_eq!(redacted, shown, "{url}");
        }
    }
}
