//! F034: a condition whose value is known not to be a boolean.

use super::expressions::replace;
use super::{Code, Fix};
use crate::lower::Lowering;
use crate::lower::outline::{Syntax, Use};
use crate::lower::reference::Scan;
use crate::lower::token::TokenKind;

pub(super) fn check(lowering: &mut Lowering<'_>) {
    for index in 0..lowering.outline.uses.len() {
        let it = lowering.outline.uses[index].clone();
        if !it.role.is_condition() || it.syntax != Syntax::Cel {
            continue;
        }
        let Some(scan) = lowering.scans.get(index).cloned() else { continue };
        let Some((kind, fix)) = known_kind(lowering, &it, &scan) else { continue };
        let path = lowering.pointer(it.span);
        let message = format!("{} is {kind}; compare it", it.key);
        lowering.error_at(Code::F034, it.start, path, message).fix = fix;
    }
}

fn known_kind(lowering: &Lowering<'_>, it: &Use, scan: &Scan) -> Option<(&'static str, Option<Fix>)> {
    if let [reference] = scan.references.as_slice() {
        let root = reference.root.as_str();
        if reference.is_whole && !reference.is_call && ["input", "inputs", "workflow_input"].contains(&root) {
            return input_kind(lowering, it, reference);
        }
    }
    let word = |at: usize| scan.tokens.get(at).map_or("", |token| &it.original[token.start..token.end]);
    let first = scan.tokens.first()?;
    if scan.tokens.len() == 1 {
        return match first.kind {
            TokenKind::Number => Some(("a number", None)),
            TokenKind::Text => {
                let inner = word(0).trim_matches(['"', '\'']);
                let is_flag = ["true", "false"].contains(&inner);
                let fix =
                    is_flag.then(|| replace(lowering, it, first.start..first.end, inner, format!("write {inner}")));
                Some(("a text", fix))
            }
            _ => None,
        };
    }
    let mut depth = 0_usize;
    let mut has_arithmetic = false;
    for (at, token) in scan.tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::Unary if depth == 0 => return None,
            TokenKind::Name if depth == 0 && word(at) == "in" => return None,
            TokenKind::Binary if depth == 0 => match word(at) {
                "+" | "-" | "*" | "/" | "%" => has_arithmetic = true,
                _ => return None,
            },
            _ => {}
        }
    }
    if has_arithmetic {
        return Some(("a number or a text", None));
    }
    let is_size = word(0) == "size" && word(1) == "(" && closes_last(scan);
    is_size.then(|| {
        let end = it.original.len();
        ("a number", Some(replace(lowering, it, end..end, " > 0", "compare it with 0".to_owned())))
    })
}

/// Whether the bracket that the second token opens closes at the last one.
fn closes_last(scan: &Scan) -> bool {
    let mut depth = 0_usize;
    for (at, token) in scan.tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1 == scan.tokens.len();
                }
            }
            _ => {}
        }
    }
    false
}

fn input_kind(
    lowering: &Lowering<'_>,
    it: &Use,
    reference: &crate::lower::reference::Reference,
) -> Option<(&'static str, Option<Fix>)> {
    let mut node = lowering.root.get("input")?;
    for segment in &reference.segments {
        node = node.get("properties")?.get(segment.name.as_deref()?)?;
    }
    let end = reference.range.end;
    let compare = |with: &str| Some(replace(lowering, it, end..end, with, format!("write {with}")));
    match node.get("type")?.text()? {
        "string" => Some(("a text", compare(" != ''"))),
        "integer" | "number" => Some(("a number", compare(" > 0"))),
        "array" => Some(("a list", None)),
        "object" => Some(("a map", None)),
        _ => None,
    }
}
