use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The number of names for which space is reserved at first. It is enough for most workflows and
/// takes one small block of memory.
const FEW: usize = 7;

/// Gives out each name once: `name`, then `name:1`, `name:2`, ..., in the order of the requests.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The names that are taken, each with the number to try at its next request.
    taken: HashMap<String, u64>,
}

impl Names {
    /// Creates a set of names in which `name` is already taken.
    pub(super) fn without(name: &str) -> Self {
        let mut taken = HashMap::with_capacity(FEW);
        taken.insert(name.to_owned(), 1);
        Self { taken }
    }

    /// Marks `name` as taken.
    pub(super) fn reserve(&mut self, name: &str) {
        self.taken.entry(name.to_owned()).or_insert(1);
    }

    /// Gives out `name`, or the next numbered form of it that no author's own name has taken.
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

    /// Takes back a name that `take(name)` gave out, unless a later request has built on it. The
    /// next request then gets it again.
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

/// Formats without the machinery of `format!`, whose cost would dominate a repeated call.
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
    fn a_name_that_was_given_back_is_given_out_again() {
        let mut names = Names::default();
        assert_eq!(names.take("a"), "a");
        names.give_back("a", "a");
        assert_eq!([names.take("a"), names.take("a")], ["a", "a:1"]);
        names.give_back("a", "a:1");
        assert_eq!(names.take("a"), "a:1");
    }

    #[test]
    fn a_name_that_later_names_build_on_stays_taken() {
        let mut names = Names::default();
        assert_eq!([names.take("a"), names.take("a"), names.take("a")], ["a", "a:1", "a:2"]);
        names.give_back("a", "a");
        names.give_back("a", "a:1");
        assert_eq!([names.take("a"), names.take("a:1")], ["a:3", "a:1:1"]);
    }
}
