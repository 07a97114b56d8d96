//! The keys of the native dialect: one table for the lowering, the messages and the JSON Schema.

pub(crate) const FLOW: &[&str] = &[
    "flow",
    "name",
    "description",
    "input",
    "timeout",
    "on_timeout",
    "defaults",
    "do",
    "dag",
    "graph",
    "concurrency",
    "output",
    "on_error",
    "on_complete",
    "triggers",
];
pub(crate) const DEFAULTS: &[&str] = &["timeout", "retry"];
pub(crate) const BLOCK: &[&str] = &["do", "dag", "graph", "concurrency"];
pub(crate) const STEP: &[&str] =
    &["id", "when", "needs", "retry", "timeout", "breaker", "limit", "on_error", "undo", "output"];
pub(crate) const TRANSITIONS: &[&str] = &["next", "branch", "else", "parallel", "join", "done", "max_visits"];
pub(crate) const RETRY: &[&str] = &["attempts", "backoff", "delay", "max_delay", "delays", "jitter", "on"];
pub(crate) const BREAKER: &[&str] = &["name", "failures", "within", "open_for"];
pub(crate) const LIMIT: &[&str] = &["name", "key", "max"];
pub(crate) const UNDO: &[&str] = &["tool", "args"];
pub(crate) const BRANCH: &[&str] = &["if", "then"];
pub(crate) const RECIPE: &[&str] = &["model", "system", "prompt", "output", "max_tokens", "repair"];
pub(crate) const LOOP: &[&str] = &["for", "while", "until", "max", "every", "concurrency", "on_item_error"];
pub(crate) const APPROVAL: &[&str] = &["to", "title", "show", "notify"];
pub(crate) const DECISION: &[&str] = &["prompt", "options", "show", "to"];
pub(crate) const KB: &[&str] = &["base", "title", "text", "key", "tags"];
pub(crate) const HANDOFF: &[&str] = &["to", "text", "via"];
pub(crate) const WAIT: &[&str] = &["for", "until", "event", "key", "match"];
pub(crate) const EMIT: &[&str] = &["event", "key", "to", "data"];
pub(crate) const FAIL: &[&str] = &["class", "message"];
pub(crate) const CRON: &[&str] = &["cron", "zone", "overlap", "catch_up", "input"];
pub(crate) const WEBHOOK: &[&str] = &["path", "secret", "key"];
pub(crate) const EVENT: &[&str] = &["name", "match", "key"];
pub(crate) const TRIGGERS: &[&str] = &["cron", "webhook", "event"];

/// A kind of step.
#[derive(Debug)]
pub(crate) struct KindKeys {
    /// The key that makes a step one of this kind.
    pub(crate) name: &'static str,
    /// The keys beside it that belong to this kind.
    pub(crate) beside: &'static [&'static str],
    /// The keys of every step that have no effect on this kind.
    pub(crate) without: &'static [&'static str],
}

const NO_ATTEMPTS: &[&str] = &["retry", "breaker", "limit"];
const NO_TIME: &[&str] = &["retry", "breaker", "limit", "timeout"];
const NO_GUARD: &[&str] = &["breaker", "limit"];

/// The kinds, in the order of their names.
pub(crate) const KINDS: &[KindKeys] = &[
    KindKeys { name: "approval", beside: &["on_timeout", "on_reject"], without: NO_ATTEMPTS },
    KindKeys { name: "decision", beside: &["fallback"], without: NO_ATTEMPTS },
    KindKeys { name: "emit", beside: &[], without: NO_TIME },
    KindKeys { name: "fail", beside: &[], without: &["retry", "breaker", "limit", "timeout", "undo", "output"] },
    KindKeys { name: "flow", beside: &["args", "detach", "queue"], without: NO_GUARD },
    KindKeys { name: "handoff", beside: &[], without: NO_ATTEMPTS },
    KindKeys { name: "if", beside: &["then", "else"], without: NO_TIME },
    KindKeys { name: "jq", beside: &[], without: NO_TIME },
    KindKeys { name: "kb", beside: &[], without: NO_GUARD },
    KindKeys { name: "loop", beside: &["do", "dag", "graph"], without: NO_ATTEMPTS },
    KindKeys { name: "parallel", beside: &["mode", "concurrency"], without: NO_ATTEMPTS },
    KindKeys { name: "recipe", beside: &["args"], without: &[] },
    KindKeys { name: "set", beside: &[], without: NO_TIME },
    KindKeys { name: "switch", beside: &["cases", "default"], without: NO_TIME },
    KindKeys { name: "tool", beside: &["args", "external"], without: &[] },
    KindKeys { name: "wait", beside: &[], without: NO_ATTEMPTS },
    KindKeys { name: "workflow", beside: &["args", "detach", "queue"], without: NO_GUARD },
];

/// Returns the kind of this key.
pub(crate) fn kind(name: &str) -> Option<&'static KindKeys> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Returns the names of the kinds, as messages list them.
pub(crate) fn kind_names() -> String {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}
