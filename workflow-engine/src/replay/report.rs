//! The text of a divergence.

use std::fmt;

use super::divergence::{CurrentCall, Difference, Divergence, Likeness, RecordedCall};

/// The largest number of calls that are listed. Further calls are counted.
const MAX_LISTED: usize = 4;

/// The patch that the report suggests, in the words of the report.
struct Patch {
    name: String,
    new: String,
    old: String,
}

impl Divergence {
    /// Returns the first difference between history and code, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let pair = self.pair();
        match (&self.0.difference, pair) {
            (Difference::Kind, Some((recorded, Some((current, _))))) => {
                format!("the kind of the call: {} is recorded, the code has a {}", recorded.kind, current.kind)
            }
            (Difference::Output { type_name, reason }, _) => {
                format!("the value does not decode as {type_name}: {reason}")
            }
            (Difference::Unasked { .. } | Difference::Passed, Some((recorded, pair))) => {
                let missed = format!("nothing asks for {} {:?}", recorded.kind, recorded.key);
                match pair {
                    Some((current, Likeness::Name)) => format!("{missed}; was it renamed to {:?}?", current.key),
                    Some((current, Likeness::Place)) => format!("{missed}; in its place comes {current}"),
                    None => missed,
                }
            }
            (Difference::End { what, .. }, _) => what.clone(),
            (Difference::Patch { name }, _) => format!("the run is older than the patch {name:?}"),
            (Difference::Kind | Difference::Unasked { .. } | Difference::Passed, _) => "the calls".into(),
        }
    }

    fn suggested_patch(&self) -> Patch {
        let as_it_was = |call: &RecordedCall| format!("{} {:?}, as it was", call.kind, call.key);
        match (&self.0.difference, self.pair()) {
            (Difference::Kind | Difference::Output { .. }, Some((recorded, Some((current, _))))) => Patch {
                name: format!("{}-2", recorded.key),
                new: format!("{current}, better under a new name"),
                old: as_it_was(recorded),
            },
            (difference, Some((recorded, Some((current, likeness))))) => Patch {
                name: current.key.clone(),
                new: current.to_string(),
                old: match (difference, likeness) {
                    // The call may have been inserted, and the recorded one may follow it.
                    (Difference::Passed, Likeness::Place) => {
                        format!("{}; nothing if that follows here", as_it_was(recorded))
                    }
                    _ => as_it_was(recorded),
                },
            },
            (_, Some((recorded, None))) => Patch {
                name: format!("no-{}", recorded.key),
                new: format!("without {} {:?}", recorded.kind, recorded.key),
                old: as_it_was(recorded),
            },
            (_, None) => Patch {
                name: "what-changed".into(),
                new: "the code as it is now".into(),
                old: "the code as it was".into(),
            },
        }
    }

    fn other_way(&self) -> &'static str {
        match &self.0.difference {
            Difference::End { .. } => "or let it be, if runs that are under way may end otherwise",
            _ => "or deploy code that makes the recorded calls (the run waits for it), or terminate the run",
        }
    }

    fn write_recorded(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Difference::End { recorded, .. } = &self.0.difference {
            return writeln!(f, "  recorded: {recorded}");
        }
        if let Difference::Patch { name } = &self.0.difference {
            return writeln!(f, "  recorded: what comes after this place, without the patch {name:?}");
        }
        for (index, call) in self.0.recorded.iter().take(MAX_LISTED).enumerate() {
            writeln!(f, "  {:<9} {call}", if index == 0 { "recorded:" } else { "" })?;
        }
        write_rest(f, self.0.recorded_count)
    }

    fn write_current(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut label = "current:";
        for call in self.0.current.iter().take(MAX_LISTED) {
            writeln!(f, "  {label:<9} {call}{}", if self.is_new(call) { " (new)" } else { "" })?;
            writeln!(f, "              --> {}", call.location)?;
            label = "";
        }
        write_rest(f, self.0.current_count)?;
        match &self.0.difference {
            Difference::Unasked { error: None } => writeln!(f, "  {label:<9} the workflow ends"),
            Difference::Unasked { error: Some(error) } => {
                writeln!(f, "  {label:<9} the workflow ends with an error: {error}")
            }
            Difference::End { current, .. } => writeln!(f, "  {label:<9} {current}"),
            Difference::Passed if self.0.current.is_empty() => {
                writeln!(f, "  {label:<9} the workflow goes on with calls that had begun")
            }
            Difference::Kind | Difference::Output { .. } | Difference::Passed | Difference::Patch { .. } => Ok(()),
        }
    }

    fn is_new(&self, call: &CurrentCall) -> bool {
        self.0.recorded.iter().all(|recorded| recorded.key != call.key)
    }
}

/// Writes the number of calls that were not listed.
fn write_rest(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.checked_sub(MAX_LISTED) {
        None | Some(0) => Ok(()),
        Some(rest) => writeln!(f, "            and {rest} more"),
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the code does not fit the run's history")?;
        self.write_recorded(f)?;
        self.write_current(f)?;
        writeln!(f, "  differs:  {}", self.summary())?;
        if let Some(before) = &self.0.before {
            writeln!(f, "  after:    {before}")?;
        }
        if let Difference::Patch { name } = &self.0.difference {
            writeln!(f, "  help:     the code has the new way alone, by ctx.deprecate_patch({name:?});")?;
            return write!(f, "            bring ctx.patched back until no run is older than it, or terminate the run");
        }
        let Patch { name, new, old } = self.suggested_patch();
        writeln!(f, "  help:     keep the old way for runs that have gone it:")?;
        writeln!(f, "                if ctx.patched({name:?})? {{")?;
        writeln!(f, "                    // {new}")?;
        writeln!(f, "                }} else {{")?;
        writeln!(f, "                    // {old}")?;
        writeln!(f, "                }}")?;
        if let Difference::Output { type_name, .. } = &self.0.difference {
            writeln!(f, "            or let {type_name} read the old form too, with #[serde(default)], say")?;
        }
        writeln!(f, "            {}", self.other_way())?;
        write!(
            f,
            "  note:     nothing was changed? outside of steps a workflow may depend only on its input and on ctx"
        )
    }
}
