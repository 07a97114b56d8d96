//! Generates random programs.

use fastrand::Rng;

use super::{ATTEMPTS, End, Failing, Op, Program};

/// The size of generated programs.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The maximum number of operations of a sequence.
    pub length: usize,
    /// The maximum depth of nested joins, children and generations.
    pub depth: usize,
    /// The longest sleep, in milliseconds.
    pub nap: u64,
    /// The duration of a long body, in milliseconds; 0: there are no long bodies.
    pub long: u64,
    /// The number of keys under which steps count in a limit; 0: no step has a limit.
    pub keys: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { length: 5, depth: 2, nap: 30, long: 0, keys: 0 }
    }
}

/// Generates a program of this shape. Equal random numbers give equal programs.
#[must_use]
pub fn generate(random: &mut Rng, shape: Shape) -> Program {
    Generator { random, shape, next: 0, may_arm: true }.program(shape.depth, true)
}

/// Generates a program that needs no client: it waits for no signals and no cancel.
#[must_use]
pub fn generate_closed(random: &mut Rng, shape: Shape) -> Program {
    Generator { random, shape, next: 0, may_arm: true }.program(shape.depth, false)
}

struct Generator<'a> {
    random: &'a mut Rng,
    shape: Shape,
    next: u32,
    /// `false` in a generation that continues as new, which must not arm compensations.
    may_arm: bool,
}

impl Generator<'_> {
    fn program(&mut self, depth: usize, is_top: bool) -> Program {
        let end = match self.random.u32(0..20) {
            0 => End::Error,
            1 => End::Panic,
            2 if is_top => End::Cancel,
            3 | 4 if depth > 0 => End::Continue(Box::new(self.program(depth - 1, is_top))),
            _ => End::Value,
        };
        let outer = std::mem::replace(&mut self.may_arm, !matches!(end, End::Continue(_)));
        let ops = self.ops(depth, is_top);
        self.may_arm = outer;
        Program { ops, end, start: self.value() }
    }

    fn ops(&mut self, depth: usize, is_top: bool) -> Vec<Op> {
        let length = self.random.usize(1..=self.shape.length);
        (0..length).map(|_| self.op(depth, is_top)).collect()
    }

    fn op(&mut self, depth: usize, is_top: bool) -> Op {
        self.next += 1;
        let id = self.next;
        match self.random.u32(0..26) {
            0..8 if self.shape.keys > 0 && self.random.bool() => {
                let failing = [Failing::Never, Failing::Never, Failing::Errors(1), Failing::Panics(1)];
                let failing = failing[self.random.usize(..failing.len())];
                Op::Seated(id, self.value(), failing, self.random.u32(1..=self.shape.keys))
            }
            24 => Op::Lossy(id, self.value()),
            25 if self.shape.long > 0 => Op::Long(id, self.value(), self.shape.long),
            0..6 | 25 => Op::Step(id, self.value(), Failing::Never),
            6 => Op::Step(id, self.value(), Failing::Errors(self.random.u32(1..ATTEMPTS))),
            7 => Op::Step(id, self.value(), Failing::Panics(self.random.u32(1..ATTEMPTS))),
            8 => Op::Hopeless(id, Failing::Errors(1)),
            9 => Op::Hopeless(id, Failing::Panics(1)),
            10 | 11 => Op::Sleep(id, self.random.u64(1..=self.shape.nap)),
            // Only runs that a client started receive signals.
            12 | 13 if is_top => Op::Signals(id, self.values(3)),
            14 => Op::Lapse(id, self.random.u64(1..=self.shape.nap)),
            15 if depth > 0 => Op::Child(id, Box::new(self.program(depth - 1, false))),
            16 | 17 => Op::Transaction(id, self.value()),
            18 | 19 if depth > 0 => {
                let branches = self.random.usize(2..4);
                Op::Join(id, (0..branches).map(|_| self.ops(depth - 1, is_top)).collect())
            }
            20 => Op::Race(id, self.random.u32(2..4), self.value()),
            21 => Op::Beside(id, self.value()),
            22 => Op::Map(id, self.values(5), self.random.usize(1..4)),
            23 if self.may_arm => Op::Arm(id),
            _ => Op::Tell(id, self.value()),
        }
    }

    fn value(&mut self) -> u64 {
        self.random.u64(..)
    }

    fn values(&mut self, most: usize) -> Vec<u64> {
        let count = self.random.usize(1..=most);
        (0..count).map(|_| self.value()).collect()
    }
}
