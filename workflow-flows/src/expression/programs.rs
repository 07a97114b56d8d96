use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ExpressionError;
use super::cel::{self, Program};

/// Programs that are kept. More than these begin a new cache.
const MOST_PROGRAMS: usize = 1024;

/// The parsed CEL programs of an evaluator, by their sources.
#[derive(Debug, Default)]
pub(super) struct Programs {
    parsed: Mutex<HashMap<String, Arc<Program>>>,
}

impl Programs {
    pub(super) fn get(&self, source: &str) -> Result<Arc<Program>, ExpressionError> {
        if let Some(known) = self.lock().get(source) {
            return Ok(Arc::clone(known));
        }
        let program = Arc::new(cel::parse(source)?);
        let mut parsed = self.lock();
        if parsed.len() >= MOST_PROGRAMS {
            parsed.clear();
        }
        parsed.insert(source.to_owned(), Arc::clone(&program));
        Ok(program)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Program>>> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
