//! Remembers which bug is switched on.

use std::sync::{LazyLock, PoisonError, RwLock};

use super::bugs::BUGS;

static PLANTED: LazyLock<RwLock<Option<&'static str>>> = LazyLock::new(|| {
    let Ok(wanted) = std::env::var("WORKFLOW_PLANTED") else { return RwLock::new(None) };
    let Some(bug) = BUGS.iter().find(|bug| bug.name == wanted) else {
        eprintln!("WORKFLOW_PLANTED={wanted}: there is no such bug");
        // A test with a misspelled bug would look like a test whose check does not find the bug.
        std::process::abort();
    };
    eprintln!("planted bug {}: {}", bug.name, bug.breaks);
    RwLock::new(Some(bug.name))
});

pub(super) fn is_on(name: &'static str) -> bool {
    debug_assert!(BUGS.iter().any(|bug| bug.name == name), "{name} is not in the table");
    *PLANTED.read().unwrap_or_else(PoisonError::into_inner) == Some(name)
}

/// Switches this bug on in the whole process. `None` switches every bug off. Statements that were
/// loaded before stay as they are.
pub fn plant(name: Option<&'static str>) {
    *PLANTED.write().unwrap_or_else(PoisonError::into_inner) = name;
}
