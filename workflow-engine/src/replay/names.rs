use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Room for so many names from the start: what most workflows have, and no more than one small piece of memory.
const FEW: usize = 7;

/// Hands out each name once: `name`, then `name:1`, `name:2`, ..., in the order in which they are asked for.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// What is taken, each with the number to try next for those that ask for it again.
    taken: HashMap<String, u64>,
}

impl Names {
    /// Hands out no name that is exactly this.
    pub(super) fn without(name: &str) -> Self {
        let mut taken = HashMap::with_capacity(FEW);
        taken.insert(name.to_owned(), 1);
        Self { taken }
    }

    /// Hands out no name that is exactly this from now on.
    pub(super) fn reserve(&mut self, name: &str) {
        self.taken.entry(name.to_owned()).or_insert(1);
    }

    /// Skips what an author's own name has taken.
    pub(super) fn take(&mut self, name: &str) -> String {
        loop {
            let Some(next) = self.taken.get_mut(name) else {
                self.taken.insert(name.to_owned(), 1);
                return name.to_owned();
            };
            let candidate = numbered(name, *next);
            *next += 1;
            if let Entry::Vacant(free) = self.taken.entry(candidate.clone()) {
                free.insert(1);
                return candidate;
            }
        }
    }

    /// Takes a name back that `take(name)` gave, where nobody has asked for it since: the next one gets it again.
    pub(super) fn give_back(&mut self, name: &str, given: &str) {
        if self.taken.get(given) != Some(&1) {
            return;
        }
        let next = self.taken.get(name).copied().unwrap_or(1);
        let is_last = given == numbered(name, next - 1);
        if given == name {
            self.taken.remove(given);
        } else if is_last {
            self.taken.remove(given);
            self.taken.insert(name.to_owned(), next - 1);
        }
    }
}

/// Without the machinery of `format!`, which took as long as all the rest of a repeated call.
fn numbered(name: &str, number: u64) -> String {
    let number = number.to_string();
    let mut numbered = String::with_capacity(name.len() + 1 + number.len());
    numbered.push_str(name);
    numbered.push(':');
    numbered.push_str(&number);
    numbered
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
