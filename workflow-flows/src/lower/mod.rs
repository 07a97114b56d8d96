//! Lowering: from the tree of a document to the graph, in each dialect.
//!
//! A lowering reports what it finds and goes on, so that all faults of a document are reported at
//! once. Beside the graph it writes an outline, by which the checks know where each step and
//! expression stands.

mod attempts;
mod block;
mod cncf;
mod composite;
mod context;
mod dialect;
pub(crate) mod duration;
mod fields;
mod joins;
mod jq;
pub(crate) mod keys;
mod kinds;
mod names;
mod native;
mod opcode;
pub(crate) mod outline;
pub(crate) mod reference;
mod schema;
mod step;
mod transition;
mod trigger;
mod two_table;

pub(crate) use context::{Lowering, MOST_FINDINGS};
pub use dialect::Dialect;

use crate::document::Node;
use crate::graph::Flow;

/// Lowers a document of a known dialect.
pub(crate) fn lower(lowering: &mut Lowering<'_>, root: &Node) -> Option<Flow> {
    match lowering.dialect {
        Dialect::Native => native::lower(lowering, root),
        Dialect::TwoTable => two_table::lower(lowering, root),
        Dialect::Opcode => opcode::lower(lowering, root),
        Dialect::Cncf => cncf::lower(lowering, root),
    }
}
