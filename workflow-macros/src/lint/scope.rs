//! Resolves the names in a body, as far as the body itself declares them.

use std::collections::HashMap;
use syn::ext::IdentExt;
use syn::visit::Visit;
use syn::{Block, Ident, Item, Pat, PatIdent, Path, Stmt, UseTree};

use super::hash_types::is_hash_type;

/// The scopes around the code being visited, beginning with the outermost.
#[derive(Default)]
pub(super) struct Scopes(Vec<Scope>);

#[derive(Default)]
struct Scope {
    /// The full path of each name that a `use` or an item declares.
    paths: HashMap<String, Vec<String>>,
    /// `true` for each variable that is a hash map or a hash set.
    variables: HashMap<String, bool>,
}

impl Scopes {
    pub(super) fn enter(&mut self) {
        self.0.push(Scope::default());
    }

    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    /// Adds the items of a block. They are in scope from the beginning of their block.
    pub(super) fn declare(&mut self, block: &Block) {
        let Some(scope) = self.0.last_mut() else { return };
        for statement in &block.stmts {
            let Stmt::Item(item) = statement else { continue };
            let own = match item {
                Item::Use(item) => {
                    scope.import(&mut Vec::new(), &item.tree);
                    continue;
                }
                Item::Mod(item) => &item.ident,
                Item::Struct(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Fn(item) => &item.sig.ident,
                _ => continue,
            };
            let name = word(own);
            scope.paths.insert(name.clone(), vec!["self".to_owned(), name]);
        }
    }

    /// Returns the path with its first word replaced by the full path that the body gives it.
    ///
    /// Returns `None` if the path names an item of the author's crate.
    pub(super) fn resolve(&self, path: &Path) -> Option<Vec<String>> {
        let mut segments: Vec<String> = path.segments.iter().map(|segment| word(&segment.ident)).collect();
        if path.leading_colon.is_none()
            && let Some(full) = self.0.iter().rev().find_map(|scope| scope.paths.get(segments.first()?))
        {
            segments.splice(..1, full.iter().cloned());
        }
        let own = segments.first().is_some_and(|first| ["self", "crate", "super", "Self"].contains(&first.as_str()));
        (!own).then_some(segments)
    }

    /// Adds the variables that a pattern binds.
    ///
    /// `is_hash` applies to a pattern that is a single name without a type.
    pub(super) fn bind(&mut self, pat: &Pat, is_hash: bool) {
        let Some(scope) = self.0.last_mut() else { return };
        match pat {
            Pat::Ident(name) if name.subpat.is_none() => {
                scope.variables.insert(word(&name.ident), is_hash);
            }
            Pat::Type(typed) => self.bind(&typed.pat, is_hash_type(&typed.ty)),
            Pat::Paren(paren) => self.bind(&paren.pat, is_hash),
            Pat::Reference(reference) => self.bind(&reference.pat, is_hash),
            other => Shadows(scope).visit_pat(other),
        }
    }

    pub(super) fn is_hash(&self, name: &Ident) -> bool {
        let name = word(name);
        self.0.iter().rev().find_map(|scope| scope.variables.get(&name)).copied().unwrap_or_default()
    }

    /// Records that a variable declared earlier is now a hash map or a hash set.
    pub(super) fn assign_hash(&mut self, name: &Ident) {
        let name = word(name);
        if let Some(known) = self.0.iter_mut().rev().find_map(|scope| scope.variables.get_mut(&name)) {
            *known = true;
        }
    }
}

impl Scope {
    fn import(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(word(&path.ident));
                self.import(before, &path.tree);
                before.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last() {
                    self.paths.insert(last.clone(), before.clone());
                }
            }
            UseTree::Name(name) => self.add_path(&name.ident, before, &name.ident),
            UseTree::Rename(rename) if rename.ident == "self" => {
                self.paths.insert(word(&rename.rename), before.clone());
            }
            UseTree::Rename(rename) => self.add_path(&rename.rename, before, &rename.ident),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(before, tree)),
            // The names that a glob imports do not appear in the body.
            UseTree::Glob(_) => {}
        }
    }

    fn add_path(&mut self, name: &Ident, before: &[String], last: &Ident) {
        let full = before.iter().cloned().chain([word(last)]).collect();
        self.paths.insert(word(name), full);
    }
}

/// Marks each name in a destructuring pattern as neither a hash map nor a hash set.
///
/// Such a name may shadow a variable that is one.
struct Shadows<'a>(&'a mut Scope);

impl Visit<'_> for Shadows<'_> {
    fn visit_pat_ident(&mut self, name: &PatIdent) {
        self.0.variables.insert(word(&name.ident), false);
    }
}

fn word(ident: &Ident) -> String {
    ident.unraw().to_string()
}
