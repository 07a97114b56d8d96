use super::super::path::{Segment, usual};
use super::super::{Path, Reference};
use super::functions;
use super::node::{Form, Node};
use super::value::CelValue;

/// Replaces the synonyms of roots and returns the paths that a tree reads.
pub(super) fn finish(root: &mut Node) -> Vec<Reference> {
    let mut reader = Reader { names: Vec::new(), found: Vec::new() };
    reader.read(root, false);
    reader.found.sort_by_key(|reference| reference.column);
    reader.found
}

struct Reader {
    /// The names that macros give to values around the node.
    names: Vec<String>,
    found: Vec<Reference>,
}

impl Reader {
    fn read(&mut self, node: &mut Node, optional: bool) {
        self.rename(node);
        if let Some((root, segments, column, is_optional)) = self.path(node) {
            self.found.push(Reference { path: Path::of(&root, segments), column, optional: optional || is_optional });
            return;
        }
        match &mut node.form {
            Form::Fold(fold) => {
                self.read(&mut fold.over, false);
                let known = self.names.len();
                self.names.push(fold.first.clone());
                self.names.extend(fold.second.clone());
                if let Some(filter) = &mut fold.filter {
                    self.read(filter, false);
                }
                self.read(&mut fold.body, false);
                self.names.truncate(known);
            }
            Form::Bind { name, value, body } | Form::OptionalMap { of: value, name, body, .. } => {
                self.read(value, false);
                self.names.push(name.clone());
                self.read(body, false);
                self.names.pop();
            }
            Form::Has { of, field } => {
                self.rename(of);
                match self.path(of) {
                    Some((root, mut segments, column, _)) => {
                        segments.push(Segment::Name(field.clone()));
                        self.found.push(Reference { path: Path::of(&root, segments), column, optional: true });
                    }
                    None => self.read(of, true),
                }
            }
            Form::Index { of, at, .. } => {
                self.read(of, optional);
                self.read(at, false);
            }
            Form::Select { of, .. } => self.read(of, optional),
            form => form.children_mut(&mut |child| self.read(child, false)),
        }
    }

    /// Replaces the synonym of a root that stands at the beginning of a node.
    fn rename(&self, node: &mut Node) {
        let is_free = |name: &str| !self.names.iter().any(|known| known == name);
        let renamed = match &mut node.form {
            Form::Name(name) if is_free(name) => usual(name, "").0,
            Form::Select { of, field, .. } => match &of.form {
                Form::Name(root) if is_free(root) && usual(root, field).1 == 1 => {
                    node.column = of.column;
                    usual(root, field).0
                }
                _ => return self.rename(of),
            },
            Form::Index { of, .. } => return self.rename(of),
            _ => return,
        };
        node.form = Form::Name(renamed.to_owned());
    }

    /// Returns root, segments, column and whether a segment is optional, if the node is a path.
    fn path(&self, node: &Node) -> Option<(String, Vec<Segment>, usize, bool)> {
        match &node.form {
            Form::Name(name) => {
                let is_root = !self.names.contains(name) && functions::type_name(name).is_none();
                is_root.then(|| (name.clone(), Vec::new(), node.column, false))
            }
            Form::Select { of, field, optional } => {
                let (root, mut segments, column, before) = self.path(of)?;
                segments.push(Segment::Name(field.clone()));
                Some((root, segments, column, before || *optional))
            }
            Form::Index { of, at, optional } => {
                let segment = match &at.form {
                    Form::Literal(CelValue::Int(index)) => Segment::Index(usize::try_from(*index).ok()?),
                    Form::Literal(CelValue::Text(text)) => Segment::Name(text.as_str().to_owned()),
                    _ => return None,
                };
                let (root, mut segments, column, before) = self.path(of)?;
                segments.push(segment);
                Some((root, segments, column, before || *optional))
            }
            _ => None,
        }
    }
}

impl Form {
    /// Returns the nodes directly below.
    pub(super) fn children(&self) -> impl Iterator<Item = &Node> {
        let mut found: Vec<&Node> = Vec::new();
        match self {
            Self::Literal(_) | Self::Name(_) => {}
            Self::Select { of, .. } | Self::Has { of, .. } => found.push(of),
            Self::Index { of, at, .. } => found.extend([of.as_ref(), at.as_ref()]),
            Self::Call { target, arguments, .. } => {
                found.extend(target.as_deref());
                found.extend(arguments);
            }
            Self::Not(of) | Self::Negate(of) => found.push(of),
            Self::Binary(_, left, right) => found.extend([left.as_ref(), right.as_ref()]),
            Self::Logic { parts, .. } => found.extend(parts),
            Self::If(condition, then, otherwise) => {
                found.extend([condition.as_ref(), then.as_ref(), otherwise.as_ref()]);
            }
            Self::List(items) => found.extend(items.iter().map(|(_, item)| item)),
            Self::Map(entries) => found.extend(entries.iter().flat_map(|(_, key, value)| [key, value])),
            Self::Fold(fold) => {
                found.extend([&fold.over, &fold.body]);
                found.extend(&fold.filter);
            }
            Self::Bind { value, body, .. } | Self::OptionalMap { of: value, body, .. } => {
                found.extend([value.as_ref(), body.as_ref()]);
            }
        }
        found.into_iter()
    }

    /// Visits the nodes directly below, of forms that give no names.
    fn children_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        match self {
            Self::Call { target, arguments, .. } => {
                target.as_deref_mut().into_iter().chain(arguments).for_each(visit);
            }
            Self::Not(of) | Self::Negate(of) => visit(of),
            Self::Binary(_, left, right) => [left, right].into_iter().for_each(|side| visit(side)),
            Self::Logic { parts, .. } => parts.iter_mut().for_each(visit),
            Self::If(condition, then, otherwise) => {
                [condition, then, otherwise].into_iter().for_each(|part| visit(part));
            }
            Self::List(items) => items.iter_mut().for_each(|(_, item)| visit(item)),
            Self::Map(entries) => entries.iter_mut().for_each(|(_, key, value)| {
                visit(key);
                visit(value);
            }),
            _ => {}
        }
    }
}
