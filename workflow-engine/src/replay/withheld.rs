use std::collections::HashMap;

use super::history::History;

/// The items that maps hold back because of their limits, while recorded outcomes are left. If the
/// limit was lowered since the outcomes were recorded, items behind it must begin: their recorded
/// outcomes come first, and nothing else may begin before them.
#[derive(Debug, Default)]
pub(super) struct Withheld(HashMap<String, Item>);

#[derive(Debug)]
struct Item {
    number: usize,
    is_admitted: bool,
}

impl Withheld {
    /// Notes that the map of this scope holds this item back. Returns whether the item is admitted.
    pub(super) fn hold(&mut self, scope: &str, number: usize) -> bool {
        match self.0.get(scope) {
            Some(item) if item.number == number && item.is_admitted => {
                self.0.remove(scope);
                true
            }
            Some(item) if item.number == number => false,
            _ => {
                self.0.insert(scope.to_owned(), Item { number, is_admitted: false });
                false
            }
        }
    }

    /// Admits an item if the first recorded outcome that no call has asked for belongs to it, or to
    /// a later one of its map. `next` is the position of the outcome that would be delivered.
    pub(super) fn admit(&mut self, history: &History, next: Option<i64>) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let (position, key) = history.unasked().next()?;
        if next.is_some_and(|next| next < position) {
            return None;
        }
        let (scope, item) = self.0.iter_mut().find(|(scope, item)| {
            let number = key.strip_prefix(scope.as_str()).and_then(|rest| rest.strip_prefix('/')?.split('/').next());
            let number = number.and_then(|number| number.parse::<usize>().ok());
            !item.is_admitted && number.is_some_and(|number| number >= item.number)
        })?;
        item.is_admitted = true;
        Some(scope.clone())
    }
}
