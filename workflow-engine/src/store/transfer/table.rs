//! The tables that a transfer copies, in its order.

/// The kind of value that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferColumnKind {
    /// The id of a run, worker, audit row, bulk operation or process: a UUID.
    Id,
    /// A text.
    Text,
    /// A whole number; times are in microseconds.
    Integer,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct TransferColumn {
    /// The name.
    pub name: &'static str,
    /// The kind of value.
    pub kind: TransferColumnKind,
    /// Whether the value counts in the checksum.
    pub is_compared: bool,
}

/// A table that a transfer copies.
#[derive(Clone, Copy, Debug)]
pub struct TransferTable {
    /// The name, without a schema.
    pub name: &'static str,
    /// The columns. The first ones are the primary key, in its order.
    pub columns: &'static [TransferColumn],
    /// The number of columns of the primary key.
    pub key: usize,
    /// Whether its rows are copied. If not, triggers write them when the rows of another table are
    /// copied, and they are only compared.
    pub is_copied: bool,
}

impl TransferTable {
    /// Returns the columns of the primary key.
    #[must_use]
    pub fn key_columns(&self) -> &'static [TransferColumn] {
        self.columns.get(..self.key).unwrap_or(self.columns)
    }
}

const fn id(name: &'static str) -> TransferColumn {
    TransferColumn { name, kind: TransferColumnKind::Id, is_compared: true }
}

const fn text(name: &'static str) -> TransferColumn {
    TransferColumn { name, kind: TransferColumnKind::Text, is_compared: true }
}

const fn integer(name: &'static str) -> TransferColumn {
    TransferColumn { name, kind: TransferColumnKind::Integer, is_compared: true }
}

const fn table(name: &'static str, key: usize, columns: &'static [TransferColumn]) -> TransferTable {
    TransferTable { name, columns, key, is_copied: true }
}

/// The tables of a system, in the order in which they are copied.
///
/// Turns stand before runs: a run that is inserted moves the turn of its gate forward, as it does
/// when it starts. So the wakes of gates on PostgreSQL need no copy. The column that says until
/// when a gate is full needs none either, because no run is claimed meanwhile. Workers are not
/// copied: none lives.
pub const TRANSFER_TABLES: &[TransferTable] = &[
    table("workflow_lanes", 1, &[integer("id"), text("queue"), text("workflow_name"), text("version"), text("gate")]),
    table("workflow_gates", 1, &[integer("id"), text("queue"), text("gate"), integer("weight"), integer("used_until")]),
    table(
        "workflow_turns",
        1,
        &[
            integer("lane_id"),
            integer("base_id"),
            integer("gate_id"),
            TransferColumn { is_compared: false, ..integer("open_at") },
            integer("given"),
        ],
    ),
    table(
        "workflow_queues",
        1,
        &[
            text("queue"),
            text("declared"),
            text("overridden"),
            integer("paused_at"),
            text("pause_reason"),
            integer("used_until"),
        ],
    ),
    table("workflow_limits", 1, &[text("name"), text("declared"), text("overridden")]),
    table(
        "workflow_runs",
        1,
        &[
            id("id"),
            text("status"),
            integer("epoch"),
            integer("available_at"),
            integer("lane_id"),
            integer("rank"),
            id("worker_id"),
            integer("wakes"),
            integer("crashes"),
            integer("lone_crashes"),
            integer("alone_epoch"),
            integer("attempt"),
            integer("generation"),
            integer("depth"),
            text("on_parent_end"),
            integer("deadline_at"),
            integer("cancel_requested_at"),
            integer("paused_at"),
            integer("created_at"),
            integer("started_at"),
            integer("completed_at"),
            text("workflow_name"),
            text("key"),
            text("single_key"),
            text("single_until"),
            id("parent_run_id"),
            text("parent_step_key"),
            text("tags"),
            text("trace"),
            text("error"),
            text("output"),
            text("input"),
        ],
    ),
    TransferTable { is_copied: false, ..table("workflow_tags", 3, &[text("name"), text("value"), id("run_id")]) },
    table(
        "step_attempts",
        3,
        &[
            id("run_id"),
            text("step_key"),
            integer("attempt"),
            text("kind"),
            text("status"),
            integer("position"),
            integer("epoch"),
            integer("started_at"),
            integer("completed_at"),
            text("error"),
            text("output"),
        ],
    ),
    table(
        "workflow_signals",
        2,
        &[
            id("run_id"),
            integer("seq"),
            text("name"),
            text("key"),
            text("consumed_by"),
            integer("created_at"),
            text("payload"),
        ],
    ),
    table("workflow_event_waits", 2, &[id("run_id"), text("step_key"), text("name"), text("key"), text("signal")]),
    table(
        "workflow_seats",
        2,
        &[
            id("run_id"),
            text("step_key"),
            text("limit_name"),
            text("key"),
            integer("asked_at"),
            integer("called_at"),
            integer("asks_at"),
            integer("epoch"),
        ],
    ),
    table("workflow_line_rates", 2, &[text("limit_name"), text("key"), integer("used_until")]),
    table(
        "workflow_schedules",
        1,
        &[text("name"), integer("revision"), integer("available_at"), text("input"), text("record")],
    ),
    table(
        "workflow_audit",
        1,
        &[
            id("id"),
            integer("at"),
            text("actor"),
            text("verb"),
            text("target"),
            text("reason"),
            text("arguments"),
            text("outcome"),
        ],
    ),
    table(
        "workflow_stats",
        6,
        &[
            integer("seconds"),
            integer("begins_at"),
            text("queue"),
            text("workflow_name"),
            text("version"),
            id("process"),
            integer("started"),
            integer("begun"),
            integer("succeeded"),
            integer("failed"),
            integer("canceled"),
            integer("retries"),
            integer("waited"),
            integer("worked"),
            text("durations"),
        ],
    ),
    table(
        "workflow_failures",
        4,
        &[
            text("workflow_name"),
            text("kind"),
            text("step"),
            text("message"),
            integer("count"),
            integer("first_at"),
            integer("last_at"),
            text("first_version"),
            id("last_run_id"),
        ],
    ),
    table("workflow_source_lines", 3, &[text("workflow_name"), text("version"), text("step"), text("lines")]),
    table(
        "workflow_bulk",
        1,
        &[
            id("id"),
            text("verb"),
            text("query"),
            text("action"),
            text("payload"),
            text("actor"),
            text("reason"),
            id("upto"),
            integer("matched"),
            id("cursor"),
            integer("done"),
            integer("skipped"),
            integer("failed"),
            text("failures"),
            text("status"),
            integer("available_at"),
            id("worker_id"),
            integer("epoch"),
            integer("created_at"),
            integer("ended_at"),
        ],
    ),
];
