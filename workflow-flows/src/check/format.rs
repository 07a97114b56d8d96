//! One way to write what documents may write in several.

use super::{Checked, Options, check};
use crate::document::{Bounds, parse};
use crate::lower::{Dialect, Lowering, lower};

/// Returns the document with the usual names of roots in its expressions and one line break at its
/// end. Comments, order and form stay. A document in another dialect is returned as it is.
///
/// # Errors
/// The findings, if the document is not valid.
///
/// ```
/// use workflow_flows::check::{Options, format};
///
/// let source = "flow: 1 # a comment\nname: a\ndo: [ { id: a, set: { x: \"{{inputs.x}}\" } } ]";
/// let formatted = format(source, &Options::default()).map_err(|_| "not valid")?;
/// assert!(formatted.contains("# a comment") && formatted.contains("{{input.x}}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn format(source: &str, options: &Options<'_>) -> Result<String, Box<Checked>> {
    let checked = check(source, options);
    if !checked.is_valid() {
        return Err(Box::new(checked));
    }
    let bounds = Bounds { bytes: options.limits.bytes, ..Bounds::default() };
    let Some(root) = parse(source, bounds).root.filter(|_| checked.dialect == Dialect::Native) else {
        return Ok(source.to_owned());
    };
    let mut lowering = Lowering::new(source, &root, options, checked.dialect);
    lower(&mut lowering, &root);
    let mut edits: Vec<(usize, usize, String)> = lowering
        .outline
        .uses
        .iter()
        .filter(|it| it.text != it.original)
        .filter(|it| source.get(it.start..).is_some_and(|rest| rest.starts_with(&it.original)))
        .map(|it| (it.start, it.start + it.original.len(), it.text.clone()))
        .collect();
    edits.sort_by_key(|(start, ..)| std::cmp::Reverse(*start));
    edits.dedup();
    let mut formatted = source.to_owned();
    for (start, end, text) in edits {
        formatted.replace_range(start..end, &text);
    }
    let length = formatted.trim_end_matches(['\n', '\r']).len();
    formatted.truncate(length);
    formatted.push('\n');
    // An edit that changes the flow would be a fault of this function, so it is not made.
    let same = check(&formatted, options).digest == checked.digest;
    Ok(if same { formatted } else { source.to_owned() })
}
