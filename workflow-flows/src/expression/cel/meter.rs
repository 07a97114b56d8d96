use super::super::{ExpressionError, ExpressionLimits};

/// The fuel and memory that an evaluation may still take. Its errors end the evaluation: nothing
/// absorbs them.
///
/// It has no clock, so an expression that fits its budget does so on each machine.
#[derive(Debug)]
pub(crate) struct Meter {
    fuel: u64,
    /// Bytes that may still be allocated. Nothing is given back, so this bounds what lives.
    memory: usize,
    /// Hints that may still be made.
    hints: u32,
    /// The limits of one evaluation, or of all expressions of one rendering together.
    limits: ExpressionLimits,
}

/// Hints that one evaluation may make. A hint takes no fuel, because an error without one means the
/// same. An error that the program absorbs has one too, so without a bound a loop makes many.
const MOST_HINTS: u32 = 8;

/// Bytes that are read for one unit of fuel.
const TICK_BYTES: usize = 32;

impl Meter {
    pub(crate) fn new(limits: ExpressionLimits) -> Self {
        Self { fuel: limits.cel_fuel, memory: limits.cel_memory, hints: MOST_HINTS, limits }
    }

    /// Takes one unit of fuel.
    pub(super) fn tick(&mut self) -> Result<(), ExpressionError> {
        self.charge(1)
    }

    /// Takes fuel.
    pub(super) fn charge(&mut self, fuel: u64) -> Result<(), ExpressionError> {
        self.fuel = match self.fuel.checked_sub(fuel) {
            Some(left) => left,
            None => {
                self.fuel = 0;
                let message = format!("the expression takes more than {} steps", self.limits.cel_fuel);
                return Err(ExpressionError::Budget(message));
            }
        };
        Ok(())
    }

    /// Returns whether an error may have a hint, which is then taken.
    pub(super) fn take_hint(&mut self) -> bool {
        let left = self.hints.checked_sub(1);
        self.hints = left.unwrap_or(0);
        left.is_some()
    }

    /// Takes the fuel for reading bytes.
    pub(super) fn charge_bytes(&mut self, bytes: usize) -> Result<(), ExpressionError> {
        self.charge((bytes / TICK_BYTES) as u64)
    }

    /// Takes the fuel and the memory of a list of items.
    pub(super) fn charge_items(&mut self, items: usize) -> Result<(), ExpressionError> {
        self.allocate(items.saturating_mul(ITEM_BYTES))?;
        self.charge((items / 4) as u64)
    }

    /// Takes memory, before it is allocated, and the fuel for filling it.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<(), ExpressionError> {
        self.memory = self.memory.checked_sub(bytes).ok_or_else(|| {
            self.fuel = 0;
            let message = format!("the expression takes more than {} bytes of memory", self.limits.cel_memory);
            ExpressionError::Budget(message)
        })?;
        self.charge_bytes(bytes)
    }
}

/// Bytes of a value in a list.
const ITEM_BYTES: usize = size_of::<super::value::CelValue<'static>>();
