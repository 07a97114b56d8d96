//! The table of functions whose answer differs from one replay to the next.
//!
//! Only what is surely such a function stands here. `rand::rngs::StdRng::seed_from_u64`, `std::net::IpAddr::from` and
//! `tokio::time::Duration` are as good in a workflow as anywhere.

/// Functions of one module or type.
#[derive(Debug)]
pub(crate) struct Source {
    /// Where they are; the first word is their crate.
    pub(super) module: &'static str,
    /// Their names below it.
    pub(super) names: &'static [&'static str],
    /// How many words at the end of their paths are enough to know them: so many that it can hardly be the author's own.
    tail: usize,
}

const fn source(module: &'static str, names: &'static [&'static str], tail: usize) -> Source {
    Source { module, names, tail }
}

impl Source {
    /// Accepts the end of the path, as a `use` leaves it, and a path through another module of the crate, as a re-export
    /// makes it.
    pub(super) fn matches(&self, segments: &[String]) -> bool {
        self.names.iter().any(|name| {
            let full: Vec<&str> = self.module.split("::").chain(name.split("::")).collect();
            let Some(end) = segments.len().checked_sub(self.tail).and_then(|from| segments.get(from..)) else {
                return false;
            };
            let ends_alike = full.get(full.len().saturating_sub(self.tail)..).is_some_and(|tail| end == tail);
            let in_crate = segments.first().map(String::as_str) == full.first().copied();
            ends_alike && (in_crate || full.len() >= segments.len() && full.ends_with(&words(segments)))
        })
    }

    /// The paths in full, as clippy wants them.
    #[cfg(test)]
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|name| format!("{}::{name}", self.module))
    }
}

fn words(segments: &[String]) -> Vec<&str> {
    segments.iter().map(String::as_str).collect()
}

pub(super) const WALL_CLOCK: &[Source] = &[
    source("std::time", &["SystemTime::now", "Instant::now"], 2),
    source("tokio::time", &["Instant::now"], 2),
    source("chrono", &["Utc::now", "Local::now"], 2),
    source("jiff", &["Zoned::now"], 2),
    source("jiff", &["Timestamp::now"], 3),
    source("time", &["OffsetDateTime::now_utc", "OffsetDateTime::now_local", "UtcDateTime::now"], 2),
];

pub(super) const RANDOMNESS: &[Source] = &[
    source("rand", &["thread_rng"], 1),
    source(
        "rand",
        &[
            "random",
            "rng",
            "make_rng",
            "random_bool",
            "random_iter",
            "random_range",
            "random_ratio",
            "fill",
            "SeedableRng::from_entropy",
            "SeedableRng::from_os_rng",
            "rngs::StdRng::from_entropy",
            "rngs::StdRng::from_os_rng",
            "rngs::SmallRng::from_entropy",
            "rngs::SmallRng::from_os_rng",
        ],
        2,
    ),
    source(
        "fastrand",
        &[
            "alphabetic",
            "alphanumeric",
            "bool",
            "char",
            "choice",
            "choose_multiple",
            "digit",
            "f32",
            "f32_inclusive",
            "f64",
            "f64_inclusive",
            "fill",
            "get_seed",
            "i8",
            "i16",
            "i32",
            "i64",
            "i128",
            "isize",
            "lowercase",
            "seed",
            "shuffle",
            "u8",
            "u16",
            "u32",
            "u64",
            "u128",
            "uppercase",
            "usize",
        ],
        2,
    ),
    source("fastrand", &["Rng::new"], 3),
    source("getrandom", &["fill", "getrandom", "u32", "u64"], 2),
    source("uuid", &["Uuid::new_v4", "Uuid::now_v1", "Uuid::now_v6", "Uuid::now_v7"], 2),
    source("std::hash", &["RandomState::new"], 2),
];

pub(super) const SPAWN: &[Source] = &[
    source("tokio", &["spawn"], 2),
    source("tokio::task", &["spawn", "spawn_blocking", "spawn_local", "block_in_place"], 3),
    source("tokio::task", &["JoinSet::new", "LocalSet::new"], 2),
    source("tokio::runtime", &["Handle::current", "Handle::try_current", "Runtime::new"], 3),
    source("std", &["thread::spawn"], 2),
];

pub(super) const TOKIO_TIME: &[Source] = &[
    source("tokio::time", &["sleep", "sleep_until", "timeout", "timeout_at", "interval", "interval_at"], 3),
    source("tokio::task", &["yield_now"], 3),
];

pub(super) const BLOCKING_SLEEP: &[Source] = &[source("std", &["thread::sleep"], 2)];

pub(super) const ENVIRONMENT: &[Source] = &[source(
    "std::env",
    &[
        "args",
        "args_os",
        "current_dir",
        "current_exe",
        "home_dir",
        "remove_var",
        "set_current_dir",
        "set_var",
        "temp_dir",
        "var",
        "var_os",
        "vars",
        "vars_os",
    ],
    2,
)];

const FILE_FUNCTIONS: &[&str] = &[
    "canonicalize",
    "copy",
    "create_dir",
    "create_dir_all",
    "hard_link",
    "metadata",
    "read",
    "read_dir",
    "read_link",
    "read_to_string",
    "remove_dir",
    "remove_dir_all",
    "remove_file",
    "rename",
    "set_permissions",
    "symlink_metadata",
    "write",
    "DirBuilder::new",
    "File::create",
    "File::create_new",
    "File::open",
    "File::options",
    "OpenOptions::new",
];

pub(super) const FILES: &[Source] = &[
    source("std::fs", FILE_FUNCTIONS, 2),
    source("tokio::fs", FILE_FUNCTIONS, 2),
    source("std::fs", &["exists"], 2),
    source("tokio::fs", &["try_exists"], 2),
];

pub(super) const NETWORK: &[Source] = &[
    source(
        "std::net",
        &["TcpListener::bind", "TcpStream::connect", "TcpStream::connect_timeout", "UdpSocket::bind"],
        2,
    ),
    source("tokio::net", &["TcpListener::bind", "TcpStream::connect", "UdpSocket::bind"], 2),
    source("tokio::net", &["lookup_host"], 3),
    source("reqwest", &["get"], 2),
    source("reqwest", &["Client::new", "Client::builder", "ClientBuilder::new"], 3),
    source("reqwest::blocking", &["get", "Client::new", "Client::builder", "ClientBuilder::new"], 3),
];
