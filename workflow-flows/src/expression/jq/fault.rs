//! The faults of jq programs, without a helper process: nothing is evaluated.

use std::sync::LazyLock;
use std::thread;

use jaq_core::Bind;
use jaq_core::load::parse::{Def, Term};

use super::super::nearest;
use super::super::parse::MOST_SOURCE_BYTES;
use super::answer::Answer;
use super::filter::{REFUSED, compile_with, defs, funs};

/// Programs that are compiled at once. The rest is compiled when it runs.
const MOST_PROGRAMS: usize = 1_000;
/// Bytes of the stack of the compiler's thread.
const STACK_BYTES: usize = 2 << 20;
/// Bytes of the stack more per byte of a program: each byte can be one level more, as in `---1`.
const STACK_BYTES_PER_BYTE: usize = 32 << 10;

/// The byte of a fault and its message.
type Fault = (usize, String);

/// The names that programs may call. Definitions have no bodies here, so that a compilation costs
/// little.
struct Known {
    defs: Vec<(&'static str, Vec<&'static str>)>,
    funs: Vec<(&'static str, Box<[Bind]>)>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| Known {
    defs: defs().map(|def| (def.name, def.args)).collect(),
    funs: funs().map(|(name, args, _)| (name, args)).collect(),
});

impl Known {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.defs.iter().map(|(name, _)| *name).chain(self.funs.iter().map(|(name, _)| *name))
    }
}

/// Returns whether there is a filter of this name, whatever its arguments.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.names().any(|known| known == name)
}

/// Returns the first fault of each of these programs with their variables. The answer is shorter
/// than the list if there are too many programs, or if no thread can be started for them.
pub(crate) fn faults(programs: &[(&str, Vec<&str>)]) -> Vec<Option<Fault>> {
    let Some(longest) = programs.iter().map(|(program, _)| program.len().min(MOST_SOURCE_BYTES)).max() else {
        return Vec::new();
    };
    let compile_all = || -> Vec<Option<Fault>> {
        programs.iter().take(MOST_PROGRAMS).map(|(program, variables)| fault(program, variables)).collect()
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK_BYTES + longest * STACK_BYTES_PER_BYTE);
        let compiling = builder.name("flow-jq-check".to_owned()).spawn_scoped(scope, compile_all);
        compiling.ok().and_then(|thread| thread.join().ok()).unwrap_or_default()
    })
}

fn fault(program: &str, variables: &[&str]) -> Option<Fault> {
    if program.len() > MOST_SOURCE_BYTES {
        return None;
    }
    let defs = KNOWN.defs.iter().map(|(name, args)| Def { name: *name, args: args.clone(), body: Term::Id });
    let funs = KNOWN.funs.iter().map(|(name, args)| (*name, args.clone(), ()));
    let Err(Answer::Syntax { message, column }) = compile_with(program, defs, funs, variables) else { return None };
    let byte = program.char_indices().nth(column.saturating_sub(1)).map_or(program.len(), |(at, _)| at);
    Some((byte, message))
}

/// Returns the length of the misspelled filter with which a text begins, and the name that is
/// probably meant: the one that is one slip away.
pub(crate) fn filter_repair(text: &str) -> Option<(usize, &'static str)> {
    let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let word = text.get(..length)?;
    if is_known(word) || REFUSED.contains(&word) {
        return None;
    }
    let names = KNOWN.names().filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    let near = nearest(word, names).filter(|name| strsim::damerau_levenshtein(word, name) == 1);
    near.map(|name| (length, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(program: &str) -> Option<Fault> {
        faults(&[(program, Vec::new())]).into_iter().next().flatten()
    }

    #[test]
    fn unknown_names_are_found_at_their_places() {
        for program in [".", "map(.a) | add", "def f(g): g + 1; f(.)", "[.[] as $x | $x]", "\"\\(.a)\" | @base64"] {
            assert_eq!(message(program), None, "{program}");
        }
        for (program, at, text) in [
            ("\"æ\" | slect(.b)", 7, "there is no filter slect with 1 argument"),
            (".a | map", 5, "there is no filter map without arguments"),
            ("now", 0, "there is no filter now"),
            ("[$x]", 1, "there is no variable $x"),
            ("if . then 1", 11, "expected else or end"),
        ] {
            assert_eq!(message(program), Some((at, text.to_owned())), "{program}");
        }
        assert_eq!(faults(&[("$x + $y", vec!["$x", "$y"])]), [None]);
    }

    #[test]
    fn misspelled_filters_are_repaired() {
        assert_eq!(filter_repair("slect(.b)"), Some((5, "select")));
        assert_eq!(filter_repair("lenght"), Some((6, "length")));
        assert_eq!(filter_repair("group(.b)"), None);
        assert_eq!(filter_repair("now"), None);
        assert_eq!(filter_repair("map"), None);
        assert_eq!(filter_repair("(.a)"), None);
    }

    /// Each of these has as many levels as a program can have.
    #[test]
    fn deep_programs_end_the_compilation_and_nothing_else() {
        let deep = |open: &str, close: &str| {
            let levels = MOST_SOURCE_BYTES / (open.len() + close.len()) - 1;
            format!("{}1{}", open.repeat(levels), close.repeat(levels))
        };
        let deep = [("-", ""), ("(", ")"), ("[", "]"), ("-[", "]"), (".[", "]"), ("try ", ""), (".|", "")]
            .map(|(open, close)| deep(open, close));
        let programs: Vec<(&str, Vec<&str>)> = deep.iter().map(|program| (program.as_str(), Vec::new())).collect();
        assert_eq!(faults(&programs).len(), programs.len());
    }
}
