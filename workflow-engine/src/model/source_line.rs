/// Where the code of a workflow calls a step, as a worker has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The name of the workflow.
    pub workflow: String,
    /// Its version.
    pub version: String,
    /// The name of the step: see [`step_name`].
    pub step: String,
    /// The file and the line: `src/orders.rs:42`. If calls at several lines have this name, all of
    /// them, separated by commas. The paths are those of the compiler.
    pub lines: String,
}

impl SourceLine {
    /// `true` if both are of one step.
    #[must_use]
    pub fn is_of_same_step(&self, other: &Self) -> bool {
        self.step == other.step && self.version == other.version && self.workflow == other.workflow
    }
}

/// Returns the name that the author gave to a step: its key without scopes and without the number
/// of its repetition. So a step in a loop or a map has one name.
#[must_use]
pub fn step_name(key: &str) -> &str {
    let mut name = key.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(key);
    while let Some((before, number)) = name.rsplit_once(':') {
        if before.is_empty() || number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        name = before;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_in_a_loop_a_scope_or_a_map_has_one_name() {
        for key in ["charge", "charge:1", "charge:12", "scope/charge", "items/7/charge:3", "a:1/charge:1:1"] {
            assert_eq!(step_name(key), "charge", "{key}");
        }
        for key in ["http:get", "7", ":1", "a:"] {
            assert_eq!(step_name(key), key);
        }
        assert_eq!(step_name("a/"), "a/");
    }
}
