//! The paths that an expression reads, with the bytes of their parts.

use std::ops::Range;

use crate::expression::{Expression, Path, Reference, Segment};

/// A path that an expression of a document reads, such as `steps.fetch.body`.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// The path, with the usual name of its root.
    pub(crate) path: Path,
    /// Whether the expression goes on if the path leads nowhere: `??`, `.?` or `has`.
    pub(crate) is_guarded: bool,
    /// The bytes of the path in the expression.
    pub(crate) range: Range<usize>,
    /// The bytes of the root, or of its synonym.
    pub(crate) root: Range<usize>,
    parts: Vec<Part>,
}

/// The place of a segment.
#[derive(Debug, Clone)]
struct Part {
    /// The bytes of the name or index, without quotes and brackets.
    name: Range<usize>,
    /// The byte after the segment.
    end: usize,
}

impl Read {
    /// Returns the name of the segment at this position.
    pub(crate) fn name(&self, index: usize) -> Option<&str> {
        match self.path.segments().get(index)? {
            Segment::Name(name) => Some(name),
            Segment::Index(_) => None,
        }
    }

    /// Returns the bytes of a segment's name. They are empty if the name is written with escapes.
    pub(crate) fn name_range(&self, index: usize) -> Range<usize> {
        self.parts.get(index).map_or(self.range.end..self.range.end, |part| part.name.clone())
    }

    /// Returns the byte after the segment at this position.
    pub(crate) fn end_of(&self, index: usize) -> Option<usize> {
        self.parts.get(index).map(|part| part.end)
    }
}

/// Returns the paths that an expression reads, in the order of its text.
pub(crate) fn reads(text: &str, expression: &Expression) -> Vec<Read> {
    expression.references().into_iter().map(|reference| locate(text, reference)).collect()
}

fn locate(text: &str, reference: &Reference) -> Read {
    let path = reference.path.clone();
    let start = text.char_indices().nth(reference.column - 1).map_or(text.len(), |(at, _)| at);
    let rest = text.get(start..).unwrap_or("");
    // The name of a path may have hyphens; in CEL a hyphen subtracts.
    let long = rest.find(|next| !is_name(next)).unwrap_or(rest.len());
    let short = rest.find(|next| !is_name(next) || next == '-').unwrap_or(rest.len());
    let length = if rest.get(..long) == Some(path.root()) { long } else { short };
    let mut end = start + length;
    // `loop.item` is written for `item`.
    if matches!(rest.get(..length), Some("loop" | "iter")) && path.root() != "loop" && path.root() != "iter" {
        end = part(text, end, path.root()).map_or(end, |part| part.end);
    }
    let root = start..end;
    let mut parts = Vec::new();
    for segment in path.segments() {
        let found = match segment {
            Segment::Name(name) => part(text, end, name),
            Segment::Index(index) => part(text, end, &index.to_string()),
        };
        let Some(found) = found else { break };
        end = found.end;
        parts.push(found);
    }
    Read { path, is_guarded: reference.optional, range: start..end, root, parts }
}

/// Finds the segment of this name that begins at a byte: after a dot, or in brackets.
fn part(text: &str, at: usize, name: &str) -> Option<Part> {
    let rest = text.get(at..)?;
    let open = rest.trim_start().chars().next().filter(|next| matches!(next, '.' | '['))?;
    let lead =
        rest.len() - rest.trim_start_matches(|next: char| next.is_whitespace() || ".[?'\"`".contains(next)).len();
    let range = at + lead..at + lead + name.len();
    let after = text.get(range.end..).filter(|_| text.get(range.clone()) == Some(name))?;
    let end = match open {
        '[' => range.end + after.find(']')? + 1,
        _ => range.end + usize::from(after.starts_with('`')),
    };
    Some(Part { name: range, end })
}

/// Returns whether a character may stand in the name of a step.
pub(crate) fn is_name(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_' || next == '-'
}

/// Returns an expression with the usual names of its roots, and with the edits of a dialect.
pub(crate) fn rewrite(
    text: &str,
    reads: &[Read],
    edit: impl Fn(&Read) -> Option<(Range<usize>, &'static str)>,
) -> String {
    let mut edits: Vec<(Range<usize>, &str)> = reads.iter().filter_map(&edit).collect();
    let has_synonym = |read: &&Read| text.get(read.root.clone()) != Some(read.path.root());
    edits.extend(reads.iter().filter(has_synonym).map(|read| (read.root.clone(), read.path.root())));
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut written = text.to_owned();
    for (range, new) in edits {
        written.replace_range(range, new);
    }
    written
}

/// Finds the paths of a jq program that begin at its input, before its first pipe.
pub(crate) fn reads_of_jq(text: &str) -> Vec<Read> {
    let mut found = Vec::new();
    let head = text.split('|').next().unwrap_or_default();
    for root in ["input", "steps", "vars"] {
        for (at, _) in head.match_indices(&format!(".{root}.")) {
            let before = head[..at].trim_end().chars().last();
            let is_in_text = head[..at].matches('"').count() % 2 == 1;
            if is_in_text || before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ']' | ')' | '.' | '$')) {
                continue;
            }
            let name = at + root.len() + 2;
            let rest = &head[name..];
            let end = name + rest.find(|c: char| !is_name(c) || c == '-').unwrap_or(rest.len());
            let Some(path) = Path::parse(&head[at + 1..end]) else { continue };
            found.push(Read {
                path,
                is_guarded: text.contains('?') || text.contains("//"),
                range: at + 1..end,
                root: at + 1..name - 1,
                parts: vec![Part { name: name..end, end }],
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Read> {
        reads(text, &Expression::compile(text).unwrap())
    }

    #[test]
    fn each_part_has_its_place() {
        for (text, root, names) in [
            ("steps.hash-payload.hash", "steps", vec!["hash-payload", "hash"]),
            ("steps['a b'][0].c", "steps", vec!["a b", "0", "c"]),
            ("size( inputs . xs ) > 0", "inputs", vec!["xs"]),
            ("1 + step.a.?b.orValue(2)", "step", vec!["a", "b"]),
            ("has(steps[ 'a' ].b)", "steps", vec!["a", "b"]),
            ("loop.item.name == 1", "loop.item", vec!["name"]),
            ("iter['index'].x", "iter['index']", vec!["x"]),
            ("loop_item-1 > 0", "loop_item", vec![]),
            ("'\u{e6}' == input.n", "input", vec!["n"]),
            ("steps[\"a\\u0062\"].c == 1", "steps", vec![]),
        ] {
            let reads = read(text);
            let shown: Vec<&str> = reads[0].parts.iter().map(|part| &text[part.name.clone()]).collect();
            assert_eq!((&text[reads[0].root.clone()], shown), (root, names), "{text}");
        }
        let text = "steps.hash-payload.hash == 1";
        let shown: Vec<&str> = read(text).iter().map(|read| &text[read.range.clone()]).collect();
        assert_eq!(shown, ["steps.hash", "payload.hash"]);
    }

    #[test]
    fn other_names_are_written_in_one_way() {
        for (text, written) in [
            ("workflow_input.a", "input.a"),
            ("inputs.count > 10 && step.a.b == loop_item.c", "input.count > 10 && steps.a.b == item.c"),
            ("loop.item.name ?? iter.index", "item.name ?? index"),
            ("'inputs.x' + input.inputs", "'inputs.x' + input.inputs"),
            ("input.xs.all(step, step.ok)", "input.xs.all(step, step.ok)"),
        ] {
            assert_eq!(rewrite(text, &read(text), |_| None), written);
        }
    }

    #[test]
    fn jq_reads_its_input_up_to_the_first_pipe() {
        let names = |text| reads_of_jq(text).iter().map(|it| text[it.range.clone()].to_owned()).collect::<Vec<_>>();
        assert_eq!(names("[.steps.fetch.body[] | .input.x]"), ["steps.fetch"]);
        assert_eq!(names(".input.a + .vars.b"), ["input.a", "vars.b"]);
        assert_eq!(names(".x.steps.a"), Vec::<String>::new());
    }
}
