//! Blocks: `do`, `dag` and `graph`.

use super::context::Lowering;
use super::fields::Fields;
use super::outline::{BlockOutline, Part, Shape};
use super::{joins, keys, step};
use crate::check::Code;
use crate::document::{Data, Node, Span};
use crate::graph::Block;

/// Lowers a value where a block stands: a list, or a map with one of the shapes.
pub(crate) fn lower(
    lowering: &mut Lowering<'_>,
    node: &Node,
    what: &str,
    parent: Option<(usize, Part)>,
) -> Option<Block> {
    match &node.data {
        Data::List(_) => list(lowering, node, Shape::Do, parent, None),
        Data::Map(_) => {
            let mut fields = Fields::read(lowering, node, what)?;
            let block = of_fields(lowering, &mut fields, parent, "");
            fields.finish(lowering, keys::BLOCK);
            block
        }
        _ => {
            lowering.wrong(node, what, "a list of steps, or a map with do, dag or graph");
            None
        }
    }
}

/// Lowers the one shape that a map has among its keys.
pub(crate) fn of_fields(
    lowering: &mut Lowering<'_>,
    fields: &mut Fields<'_>,
    parent: Option<(usize, Part)>,
    outer: &str,
) -> Option<Block> {
    let shapes = [("do", Shape::Do), ("dag", Shape::Dag), ("graph", Shape::Graph)];
    let found: Vec<_> = shapes.into_iter().filter(|(key, _)| fields.peek(key).is_some()).collect();
    let owner = if outer.is_empty() { fields.owner.clone() } else { outer.to_owned() };
    let (key, shape) = match found.as_slice() {
        [] => {
            let message = format!("{owner} has no steps");
            lowering.error(Code::F013, fields.span, message).help("add one of do, dag and graph");
            return None;
        }
        [one] => *one,
        [first, second, ..] => {
            let span = fields.peek(second.0).map_or(fields.span, |entry| entry.key_span);
            let message =
                format!("{owner} has \"{}\" and \"{}\"; one of do, dag and graph stands in it", first.0, second.0);
            lowering.error(Code::F013, span, message);
            for (key, _) in &found {
                fields.take(key);
            }
            *first
        }
    };
    let node = fields.take(key)?;
    let concurrency = if shape == Shape::Dag {
        let number = fields.take("concurrency");
        number.and_then(|node| lowering.number(node, "concurrency", 1, 10_000, ""))
    } else {
        None
    };
    let concurrency = concurrency.and_then(|number| usize::try_from(number).ok());
    match shape {
        Shape::Graph => graph(lowering, node, parent),
        _ => list(lowering, node, shape, parent, concurrency),
    }
}

/// Adds a block to the outline.
pub(crate) fn begin(
    lowering: &mut Lowering<'_>,
    shape: Shape,
    parent: Option<(usize, Part)>,
    span: Span,
) -> Option<usize> {
    let limit = lowering.options.limits.nesting;
    if lowering.nesting >= limit {
        let message = format!("blocks are nested deeper than {limit}");
        lowering.error(Code::F050, span, message).help("make the inner part a flow of its own");
        return None;
    }
    let section = lowering.section;
    lowering.outline.blocks.push(BlockOutline { shape, section, parent, steps: Vec::new(), start: None });
    Some(lowering.outline.blocks.len() - 1)
}

fn list(
    lowering: &mut Lowering<'_>,
    node: &Node,
    shape: Shape,
    parent: Option<(usize, Part)>,
    concurrency: Option<usize>,
) -> Option<Block> {
    let name = if shape == Shape::Dag { "dag" } else { "do" };
    let Some(items) = node.items() else {
        lowering.wrong(node, name, "a list of steps");
        return None;
    };
    if items.is_empty() {
        lowering.error(Code::F013, node.span, format!("\"{name}\" has no steps")).help("a block has one step or more");
        return None;
    }
    let block = begin(lowering, shape, parent, node.span)?;
    lowering.nesting += 1;
    let steps: Vec<_> = items.iter().filter_map(|item| step::lower(lowering, item, None, block)).collect();
    lowering.nesting -= 1;
    Some(match shape {
        Shape::Dag => Block::Dag { steps, concurrency },
        _ => Block::Do(steps),
    })
}

fn graph(lowering: &mut Lowering<'_>, node: &Node, parent: Option<(usize, Part)>) -> Option<Block> {
    let Some(entries) = node.entries() else {
        lowering.wrong(node, "graph", "a map from ids to steps");
        return None;
    };
    let Some(first) = entries.first() else {
        lowering.error(Code::F013, node.span, "\"graph\" has no steps").help("a block has one step or more");
        return None;
    };
    let block = begin(lowering, Shape::Graph, parent, node.span)?;
    lowering.nesting += 1;
    let mut steps: Vec<_> =
        entries.iter().filter_map(|entry| step::lower(lowering, &entry.value, Some(entry), block)).collect();
    lowering.nesting -= 1;
    let has_start = entries.iter().any(|entry| entry.key == "start");
    let start = if has_start { "start".to_owned() } else { first.key.clone() };
    lowering.outline.blocks[block].start = lowering.outline.find_in(block, &start);
    joins::resolve(lowering, block, &mut steps);
    Some(Block::Graph { start, steps })
}
