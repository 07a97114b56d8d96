//! The table of functions that a workflow may call only in steps, because a replay would get
//! another result or repeat an effect.
//!
//! A function is listed only if it certainly has this problem. A workflow may use
//! `rand::rngs::StdRng::seed_from_u64`, `std::net::IpAddr::from` and `tokio::time::Duration`.

/// Functions of one module or crate that are recognized by equally many words of their path.
#[derive(Debug)]
pub(crate) struct FunctionGroup {
    /// The path of the module. Its first word is the crate.
    pub(super) module: &'static str,
    /// The paths of the functions below the module.
    pub(super) names: &'static [&'static str],
    /// The number of words at the end of a path that identify a function.
    ///
    /// It is large enough that a path to the author's own code hardly ever ends in these words.
    tail: usize,
}

const fn group(module: &'static str, names: &'static [&'static str], tail: usize) -> FunctionGroup {
    FunctionGroup { module, names, tail }
}

impl FunctionGroup {
    /// Returns whether a path names one of the functions.
    ///
    /// The path may be only the end of the full path, as after a `use`. It may also lead through
    /// another module of the crate, as after a re-export.
    pub(super) fn matches(&self, segments: &[String]) -> bool {
        self.names.iter().any(|name| {
            let full: Vec<&str> = self.module.split("::").chain(name.split("::")).collect();
            let Some(end) = segments.len().checked_sub(self.tail).and_then(|from| segments.get(from..)) else {
                return false;
            };
            let same_tail = full.get(full.len().saturating_sub(self.tail)..).is_some_and(|tail| end == tail);
            let in_crate = segments.first().map(String::as_str) == full.first().copied();
            same_tail && (in_crate || full.len() >= segments.len() && full.ends_with(&words(segments)))
        })
    }

    /// Returns the full paths, which is the form that clippy needs.
    #[cfg(test)]
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|name| format!("{}::{name}", self.module))
    }
}

fn words(segments: &[String]) -> Vec<&str> {
    segments.iter().map(String::as_str).collect()
}

pub(super) const WALL_CLOCK: &[FunctionGroup] = &[
    group("std::time", &["SystemTime::now", "Instant::now", "SystemTime::elapsed", "Instant::elapsed"], 2),
    group("tokio::time", &["Instant::now", "Instant::elapsed"], 2),
    group("chrono", &["Utc::now", "Local::now"], 2),
    group("jiff", &["Zoned::now"], 2),
    group("jiff", &["Timestamp::now"], 3),
    group("time", &["OffsetDateTime::now_utc", "OffsetDateTime::now_local", "UtcDateTime::now"], 2),
];

pub(super) const RANDOMNESS: &[FunctionGroup] = &[
    group("rand", &["thread_rng"], 1),
    group(
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
    group(
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
    group("fastrand", &["Rng::new"], 3),
    group("getrandom", &["fill", "getrandom", "u32", "u64"], 2),
    group("uuid", &["Uuid::new_v4", "Uuid::now_v1", "Uuid::now_v6", "Uuid::now_v7"], 2),
    group("std::hash", &["RandomState::new"], 2),
];

pub(super) const SPAWN: &[FunctionGroup] = &[
    group("tokio", &["spawn"], 2),
    group("tokio::task", &["spawn", "spawn_blocking", "spawn_local", "block_in_place"], 3),
    group("tokio::task", &["JoinSet::new", "LocalSet::new"], 2),
    group("tokio::runtime", &["Handle::current", "Handle::try_current", "Runtime::new"], 3),
    group("std", &["thread::spawn"], 2),
    group("async_std::task", &["spawn", "spawn_blocking", "spawn_local"], 3),
    group("smol", &["spawn", "unblock"], 2),
    group("std::process", &["Command::new"], 3),
    group("tokio::process", &["Command::new"], 3),
    group("async_std::process", &["Command::new"], 3),
    group("smol::process", &["Command::new"], 3),
];

pub(super) const TOKIO_TIME: &[FunctionGroup] = &[
    group("tokio::time", &["sleep", "sleep_until", "timeout", "timeout_at", "interval", "interval_at"], 3),
    group("tokio::task", &["yield_now"], 3),
    group("async_std", &["task::sleep", "task::yield_now", "future::timeout", "stream::interval"], 3),
    group("smol", &["Timer::after", "Timer::at", "Timer::interval", "Timer::interval_at"], 2),
    group("smol", &["future::yield_now"], 3),
    group("async_io", &["Timer::after", "Timer::at", "Timer::interval", "Timer::interval_at"], 2),
    group("futures_timer", &["Delay::new"], 3),
];

pub(super) const BLOCKING_SLEEP: &[FunctionGroup] = &[group("std", &["thread::sleep"], 2)];

pub(super) const ENVIRONMENT: &[FunctionGroup] = &[
    group(
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
    ),
    group("std::process", &["id"], 2),
];

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

pub(super) const FILES: &[FunctionGroup] = &[
    group("std::fs", FILE_FUNCTIONS, 2),
    group("tokio::fs", FILE_FUNCTIONS, 2),
    group("std::fs", &["exists"], 2),
    group("tokio::fs", &["try_exists"], 2),
];

pub(super) const NETWORK: &[FunctionGroup] = &[
    group("std::net", &["TcpListener::bind", "TcpStream::connect", "TcpStream::connect_timeout", "UdpSocket::bind"], 2),
    group("tokio::net", &["TcpListener::bind", "TcpStream::connect", "UdpSocket::bind"], 2),
    group("tokio::net", &["lookup_host"], 3),
    group("reqwest", &["get"], 2),
    group("reqwest", &["Client::new", "Client::builder", "ClientBuilder::new"], 3),
    group("reqwest::blocking", &["get", "Client::new", "Client::builder", "ClientBuilder::new"], 3),
];
