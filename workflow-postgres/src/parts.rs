//! One statement, composed of the parts that a batch needs. Each part stands once, in `sql/parts/`.
//!
//! The fast path runs a whole batch as one such statement; the slow path runs single parts, each as
//! a statement of its own. A part that a batch does not need is left out, because the server pays
//! for each part of a statement before it has read the first row.
//!
//! A file of a part has common table expressions and, behind `-- Answers`, the columns that the
//! part adds to the first row of the answer. Its parameters count from `$1`; [`Parts::text`]
//! renumbers them. These holes are filled in: `{after}` is true once everything that comes before
//! the part has been done and the claims of the batch hold; `{none_lost}` adds the test of claims
//! that the fence cache does not know; `{returning}` makes recorded attempts countable; `{lapsed}`
//! and `{or_lapsed}` add the runs whose leases have ended to a claim; `{turn}` is the turn in which
//! a lane gives a run to a claim; `{gate}` and `{at_most}` are the gate of a lane and the largest
//! number of its runs, and `{within}` is the test of that number.

use std::fmt::{self, Write};

/// Which parts a statement has. Parameters are bound in the order of the fields, after the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Parts {
    pub(super) fence: PartsFence,
    pub(super) starts: bool,
    pub(super) attempts: bool,
    /// Ends and parks.
    pub(super) releases: bool,
    pub(super) claim: bool,
    /// The claim also takes runs whose leases have ended.
    pub(super) lapsed: bool,
    /// The claim has several lanes, which take turns. With one lane the runs are in order already.
    pub(super) turns: bool,
    /// The claim also takes runs from behind gates.
    pub(super) gates: bool,
    /// Claims that the fence cache does not know, attempts that are not new first successes, parks,
    /// or ends with an error: the checks and columns that most batches do not need.
    pub(super) unusual: bool,
}

/// The columns of a claimed run.
const CLAIMED: [&str; 8] = ["id", "epoch", "lane", "rank", "input", "due_at", "created_at", "rest"];

/// Adds the runs of `find_lapsed.sql` to the due runs of `claim_runs.sql`.
const OR_LAPSED: &str = "UNION ALL SELECT lapsed.place, lapsed.id, lapsed.available_at, lapsed.lane, NULL, \
                         lapsed.available_at - {begun_head_start} FROM lapsed";

/// The turn of a run among those of its lane.
const TURN: &str = "row_number() OVER (PARTITION BY either.lane ORDER BY either.order_at, either.id)";

/// The number of a run among those of its lane and gate, and its turn.
const TURN_OF_GATE: &str = "row_number() OVER (PARTITION BY either.lane ORDER BY either.order_at, either.id) AS number,
               (row_number() OVER (PARTITION BY either.lane ORDER BY either.order_at, either.id) - 1
                   + ($12::bigint[])[either.lane] % ($10::bigint[])[either.lane]) / ($10::bigint[])[either.lane]";

/// Keeps a gate from giving more runs than it may. The limit of a rank alone does not.
const WITHIN_GATE: &str = " AND first.number <= ($11::bigint[])[first.lane]";

/// The rows that a statement locks to check the claims of the attempts that it records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum PartsFence {
    /// Nothing: the claims have passed the fence, or there are no attempts.
    #[default]
    None,
    /// The only run of the batch, which records one attempt.
    Run,
    /// The rows of this process's workers.
    Owners,
}

const NONE: Parts = Parts {
    fence: PartsFence::None,
    starts: false,
    attempts: false,
    releases: false,
    claim: false,
    lapsed: false,
    turns: false,
    gates: false,
    unusual: false,
};

impl Parts {
    /// Starts runs.
    pub(super) const START_RUNS: Self = Self { starts: true, ..NONE };
    /// Records attempts whose claims hold, and counts the written rows.
    pub(super) const RECORD_ATTEMPTS: Self = Self { attempts: true, unusual: true, ..NONE };
    /// Ends and parks runs.
    pub(super) const RELEASE_CLAIMS: Self = Self { releases: true, unusual: true, ..NONE };
    /// Claims runs of several lanes.
    pub(super) const CLAIM_RUNS: Self = Self { claim: true, lapsed: true, turns: true, ..NONE };

    /// Also takes runs from behind gates, if there are any.
    pub(super) fn with_gates(self, gates: usize) -> Self {
        Self { gates: self.claim && gates > 0, ..self }
    }

    /// Leaves out the part that a claim does not need if it resumes from a cursor.
    pub(super) fn resumed(self, is_resumed: bool) -> Self {
        Self { lapsed: self.lapsed && !is_resumed, ..self }
    }

    /// Leaves out the turns of lanes unless there are several.
    pub(super) fn with_lanes(self, lanes: usize) -> Self {
        Self { turns: self.turns && lanes > 1, ..self }
    }

    /// The files of the parts, in the order in which the statement has them.
    fn files(self) -> Vec<&'static str> {
        let mut files = Vec::new();
        match self.fence {
            PartsFence::None => {}
            PartsFence::Run => files.push(include_str!("sql/parts/check_run.sql")),
            PartsFence::Owners => {
                files.push(include_str!("sql/parts/lock_owners.sql"));
                if self.unusual {
                    files.push(include_str!("sql/parts/find_lost_claims.sql"));
                }
                files.push(include_str!("sql/parts/check_claims.sql"));
            }
        }
        if self.starts {
            files.push(include_str!("sql/parts/find_lanes.sql"));
            files.push(include_str!("sql/parts/start_runs.sql"));
        }
        if self.attempts {
            files.push(match self.unusual {
                true => include_str!("sql/parts/record_attempts.sql"),
                false => include_str!("sql/parts/record_first_successes.sql"),
            });
        }
        if self.releases {
            files.push(match self.unusual {
                true => include_str!("sql/parts/release_claims.sql"),
                false => include_str!("sql/parts/end_runs.sql"),
            });
        }
        if self.claim {
            files.push(include_str!("sql/parts/claim_runs.sql"));
        }
        files
    }

    /// Returns the statement. `prepare` is applied to the text of each file.
    pub(super) fn text(self, prepare: impl Fn(&'static str) -> &'static str) -> String {
        // `$1` is the time.
        let mut parameters = 1;
        let (mut expressions, mut answers) = (Vec::new(), vec![("{now}".to_owned(), "now".to_owned())]);
        let mut after = String::from("true");
        let (lapsed, _) = split(prepare(include_str!("sql/parts/find_lapsed.sql")));
        let (lapsed, or_lapsed) = match self.lapsed {
            true => (format!("{lapsed}, "), OR_LAPSED),
            false => (String::new(), ""),
        };
        for file in self.files() {
            let (text, answer) = split(prepare(file));
            let (turn, gate, at_most) = match (self.gates, self.turns) {
                (true, _) => (TURN_OF_GATE, "($9::text[])[named.number]", "($11::bigint[])[line.number]"),
                (false, true) => (TURN, "''", "$4"),
                (false, false) => ("0", "''", "$4"),
            };
            let text = text.replace("{lapsed}", &lapsed).replace("{or_lapsed}", or_lapsed).replace("{turn}", turn);
            let within = if self.gates { WITHIN_GATE } else { "" };
            let text = text.replace("{gate}", gate).replace("{at_most}", at_most).replace("{within}", within);
            let (text, count) = renumbered(&text, parameters);
            let none_lost = if self.unusual { "AND NOT EXISTS (SELECT FROM lost)" } else { "" };
            let returning = if self.fence == PartsFence::None { "RETURNING 1" } else { "" };
            let text = text.replace("{after}", &after).replace("{none_lost}", none_lost);
            expressions.push(text.replace("{returning}", returning));
            if let Some((expression, name)) = answer {
                let (expression, _) = renumbered(expression, parameters);
                // An expression is executed when it is first read. To read it here makes it the
                // first.
                match name {
                    "holds" => after.clone_from(&expression),
                    "laned" => _ = write!(after, " AND {expression}"),
                    "started" => after += " AND (SELECT count(*) FROM started) >= 0",
                    // A claim may not take a run that the batch could not release: the slow path
                    // looks at that first.
                    "finished" => _ = write!(after, " AND ({expression}) IS NULL"),
                    _ => {}
                }
                answers.push((expression, name.to_owned()));
            }
            parameters += count;
        }
        if self.attempts && self.fence == PartsFence::None {
            let count = "(SELECT count(*) FROM recorded) + (SELECT count(*) FROM updated)";
            answers.push((count.into(), "recorded".into()));
        }
        self.joined(&expressions, &answers)
    }

    fn joined(self, expressions: &[String], answers: &[(String, String)]) -> String {
        let mut text = format!("WITH {}\nSELECT ", expressions.join(", "));
        for (place, (expression, name)) in answers.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            // A `String` takes whatever is written.
            let _ = write!(text, "{comma}{expression} AS {name}");
        }
        if self.claim {
            // The first row has the answers, the others are the claimed runs.
            let nulls = vec!["NULL"; answers.len()].join(", ");
            let (named, read) =
                (CLAIMED.map(|name| format!(", NULL AS {name}")), CLAIMED.map(|name| format!(", c.{name}")));
            let _ = write!(text, "{}\nUNION ALL\nSELECT {nulls}{} FROM claimed AS c", named.concat(), read.concat());
        }
        text
    }

    /// Every combination that a batch may need.
    #[cfg(test)]
    pub(super) fn all() -> Vec<Self> {
        let flag = |bits: u32, place: u32| bits & 1 << place != 0;
        let fences = [PartsFence::None, PartsFence::Run, PartsFence::Owners];
        let of = |bits| Self {
            starts: flag(bits, 0),
            attempts: flag(bits, 1),
            releases: flag(bits, 2),
            claim: flag(bits, 3),
            lapsed: flag(bits, 4),
            unusual: flag(bits, 5),
            turns: flag(bits, 6),
            gates: flag(bits, 7),
            fence: PartsFence::None,
        };
        let is_used = |parts: &Self| {
            let changes = parts.starts || parts.attempts || parts.releases;
            let owners = parts.attempts || parts.claim && (parts.starts || parts.releases);
            let is_fenced = match parts.fence {
                PartsFence::None => !owners,
                PartsFence::Run => parts.attempts && !parts.starts && !parts.claim,
                PartsFence::Owners => owners,
            };
            let fast = (changes || parts.claim) && is_fenced && (parts.claim || !parts.lapsed && !parts.turns);
            let slow = [Self::START_RUNS, Self::RECORD_ATTEMPTS, Self::RELEASE_CLAIMS, Self::CLAIM_RUNS];
            let gated = [true, false].map(|is_resumed| Self::CLAIM_RUNS.with_gates(1).resumed(is_resumed));
            let fast = fast && !parts.gates && (!parts.unusual || parts.attempts || parts.releases);
            fast || slow.contains(parts) || gated.contains(parts)
        };
        let fenced = |parts: Self| fences.map(|fence| Self { fence, ..parts });
        (0..256).map(of).flat_map(fenced).filter(is_used).collect()
    }
}

/// The names of the parts.
impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("batch:")?;
        let names = ["run", "owners", "starts", "attempts", "releases", "claim", "lapsed", "turns", "gates", "unusual"];
        let fences = [self.fence == PartsFence::Run, self.fence == PartsFence::Owners];
        let flags =
            [self.starts, self.attempts, self.releases, self.claim, self.lapsed, self.turns, self.gates, self.unusual];
        let flags = fences.into_iter().chain(flags);
        names.iter().zip(flags).filter(|(_, flag)| *flag).try_for_each(|(name, _)| write!(f, " {name}"))
    }
}

/// Splits a file into its expressions and its answer, an expression with a name.
fn split(file: &'static str) -> (&'static str, Option<(&'static str, &'static str)>) {
    let comment: usize = file.split_inclusive('\n').take_while(|line| line.starts_with("--")).map(str::len).sum();
    let (text, answer) = match file[comment..].split_once("-- Answers\n") {
        Some((text, answer)) => (text, answer.trim_end().rsplit_once(" AS ")),
        None => (&file[comment..], None),
    };
    (text.trim_end(), answer)
}

/// Adds `by` to the number of each parameter. Returns the text and the largest number before.
fn renumbered(text: &str, by: usize) -> (String, usize) {
    let (mut renumbered, mut largest) = (String::with_capacity(text.len()), 0);
    let mut pieces = text.split('$');
    renumbered.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let number = piece[..digits].parse().unwrap_or(0_usize);
        largest = largest.max(number);
        let _ = write!(renumbered, "${}{}", number + by, &piece[digits..]);
    }
    (renumbered, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_its_parameters_from_the_last_one_of_the_part_before() {
        let (fence, starts, attempts, releases) = (PartsFence::Owners, true, true, true);
        let all =
            Parts { starts, attempts, releases, claim: true, lapsed: true, turns: true, unusual: true, fence, ..NONE };
        let gated = Parts::CLAIM_RUNS.with_gates(1);
        let lone = Parts { fence: PartsFence::Run, attempts, ..NONE };
        for parts in [
            all,
            Parts { unusual: false, ..all },
            all.resumed(true),
            all.with_lanes(1),
            Parts::CLAIM_RUNS,
            gated,
            gated.resumed(true),
            lone,
        ] {
            let text = parts.text(|file| file);
            let (_, count) = renumbered(&text, 0);
            // The time is put in later.
            for number in 2..=count {
                assert!(text.contains(&format!("${number}")), "{parts:?}: ${number} of {count}\n{text}");
            }
            let holes = [
                "{after}",
                "{none_lost}",
                "{returning}",
                "{lapsed}",
                "{or_lapsed}",
                "{turn}",
                "{gate}",
                "{at_most}",
                "-- ",
            ];
            assert!(holes.iter().all(|hole| !text.contains(hole)), "{text}");
        }
    }

    /// Where no limit is declared, only a start looks for one: `max_waiting` may have been set
    /// since.
    #[test]
    fn batches_read_nothing_of_limits() {
        let tables = ["queues", "gates", "turns", "gate_wakes", "limits", "seats", "line_rates"];
        for parts in Parts::all().into_iter().filter(|parts| !parts.starts) {
            let text = parts.text(|file| file);
            assert!(tables.iter().all(|table| !text.contains(&format!("workflow_{table}"))), "{parts:?}\n{text}");
        }
    }

    #[test]
    fn what_waits_for_nothing_comes_after_what_may_wait() {
        let (starts, attempts, releases, claim) = (true, true, true, true);
        let parts =
            Parts { fence: PartsFence::Owners, starts, attempts, releases, claim, lapsed: true, turns: true, ..NONE };
        let text = parts.text(|file| file);
        let at = |name: &str| text.find(&format!("{name} AS ")).unwrap_or(usize::MAX);
        let order = ["seen", "locked", "verdict", "started", "recorded", "finished", "lapsed", "due", "claimed"];
        assert!(order.is_sorted_by_key(|name| at(name)), "{text}");
    }
}
