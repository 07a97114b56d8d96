use std::collections::HashMap;

/// Hands out each name once: `name`, then `name:1`, `name:2`, ..., in the order in which they are asked for.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// What is taken, each with the number to try next for those that ask for it again.
    taken: HashMap<String, u64>,
}

impl Names {
    /// Hands out no name that is exactly this.
    pub(super) fn without(name: &str) -> Self {
        Self { taken: HashMap::from([(name.to_owned(), 1)]) }
    }

    /// Hands out no name that is exactly this from now on.
    pub(super) fn reserve(&mut self, name: &str) {
        self.taken.entry(name.to_owned()).or_insert(1);
    }

    /// Skips what an author's own name has taken.
    pub(super) fn take(&mut self, name: &str) -> String {
        let Some(next) = self.taken.get(name) else {
            self.taken.insert(name.to_owned(), 1);
            return name.to_owned();
        };
        let mut number = *next;
        let free = loop {
            let candidate = format!("{name}:{number}");
            number += 1;
            if !self.taken.contains_key(&candidate) {
                break candidate;
            }
        };
        self.taken.insert(name.to_owned(), number);
        self.taken.insert(free.clone(), 1);
        free
    }

    /// Takes a name back that `take(name)` gave, where nobody has asked for it since: the next one gets it again.
    pub(super) fn give_back(&mut self, name: &str, given: &str) {
        if self.taken.get(given) != Some(&1) {
            return;
        }
        let next = self.taken.get(name).copied().unwrap_or(1);
        let is_last = given.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')) == Some(&(next - 1).to_string());
        if given == name {
            self.taken.remove(given);
        } else if is_last {
            self.taken.remove(given);
            self.taken.insert(name.to_owned(), next - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_repeated_name_is_numbered_and_an_own_name_is_skipped() {
        let mut names = Names::default();
        let given: Vec<_> = ["a", "a:1", "a", "a", "a:1", "b"].iter().map(|name| names.take(name)).collect();
        assert_eq!(given, ["a", "a:1", "a:2", "a:3", "a:1:1", "b"]);
    }

    #[test]
    fn what_was_given_back_is_given_again() {
        let mut names = Names::default();
        assert_eq!(names.take("a"), "a");
        names.give_back("a", "a");
        assert_eq!([names.take("a"), names.take("a")], ["a", "a:1"]);
        names.give_back("a", "a:1");
        assert_eq!(names.take("a"), "a:1");
    }

    #[test]
    fn what_others_were_numbered_after_stays_taken() {
        let mut names = Names::default();
        assert_eq!([names.take("a"), names.take("a"), names.take("a")], ["a", "a:1", "a:2"]);
        names.give_back("a", "a");
        names.give_back("a", "a:1");
        assert_eq!([names.take("a"), names.take("a:1")], ["a:3", "a:1:1"]);
    }
}
