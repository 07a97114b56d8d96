/// Counts the bodies of a run, and decides whether they may begin.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    /// The number of bodies that run or may begin.
    granted: usize,
    /// The number of bodies that run.
    running: usize,
    /// Whether no body may begin for now.
    held: bool,
}

impl Bodies {
    /// Counts a body that may begin.
    pub(super) fn grant(&mut self) {
        self.granted += 1;
    }

    /// Takes back the permission of a body that has not begun.
    pub(super) fn withdraw(&mut self) {
        self.granted -= 1;
    }

    /// Counts a body that begins.
    pub(super) fn begin(&mut self) {
        self.running += 1;
    }

    /// Counts a body that has begun and ends.
    pub(super) fn end(&mut self) {
        self.granted -= 1;
        self.running -= 1;
    }

    /// Forbids bodies to begin, or allows it again. Returns whether bodies may begin that could not
    /// before.
    pub(super) fn hold(&mut self, held: bool) -> bool {
        std::mem::replace(&mut self.held, held) && !held
    }

    /// Returns whether no body may begin for now.
    pub(super) fn are_held(&self) -> bool {
        self.held
    }

    /// Returns whether a body runs.
    pub(super) fn are_running(&self) -> bool {
        self.running > 0
    }

    /// Returns whether no body runs or may begin.
    pub(super) fn are_over(&self) -> bool {
        self.granted == 0
    }
}
