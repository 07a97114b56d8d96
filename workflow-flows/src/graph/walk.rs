use super::{Block, Flow, Kind, LimitRule, OnError, OnReject, Step};

impl Flow {
    /// Calls `f` for each step of the flow, at any depth, in the order of the document.
    pub fn for_each_step<'f>(&'f self, mut f: impl FnMut(&'f Step)) {
        for block in [Some(&self.body), self.on_error.as_ref(), self.on_complete.as_ref()].into_iter().flatten() {
            block.walk(&mut f);
        }
    }

    /// Calls `f` for each step of the flow, at any depth, in the order of the document. Steps that
    /// `f` puts into a step are visited, too.
    pub fn for_each_step_mut(&mut self, mut f: impl FnMut(&mut Step)) {
        for block in [Some(&mut self.body), self.on_error.as_mut(), self.on_complete.as_mut()].into_iter().flatten() {
            block.walk_mut(&mut f);
        }
    }

    /// Returns the limits of the steps, in the order of the document.
    #[must_use]
    pub fn limits(&self) -> Vec<&LimitRule> {
        let mut limits = Vec::new();
        self.for_each_step(|step| limits.extend(&step.limit));
        limits
    }
}

impl Block {
    fn walk<'f>(&'f self, f: &mut dyn FnMut(&'f Step)) {
        let (Self::Do(steps) | Self::Dag { steps, .. } | Self::Graph { steps, .. }) = self;
        for step in steps {
            f(step);
            for block in step.blocks() {
                block.walk(f);
            }
        }
    }

    fn walk_mut(&mut self, f: &mut dyn FnMut(&mut Step)) {
        let (Self::Do(steps) | Self::Dag { steps, .. } | Self::Graph { steps, .. }) = self;
        for step in steps {
            f(step);
            for block in step.blocks_mut() {
                block.walk_mut(f);
            }
        }
    }
}

impl Step {
    /// Returns the blocks of the step, in the order of the document.
    #[must_use]
    pub fn blocks(&self) -> Vec<&Block> {
        let mut blocks: Vec<&Block> = match &self.kind {
            Kind::If { then, otherwise, .. } => std::iter::once(then).chain(otherwise).collect(),
            Kind::Switch(switch) => switch.cases.values().chain(&switch.default).collect(),
            Kind::Loop(repetition) => vec![&repetition.body],
            Kind::Parallel(parallel) => parallel.branches.iter().map(|(_, block)| block).collect(),
            Kind::Approval(approval) => {
                let rejected = match &approval.on_reject {
                    OnReject::Do(block) => Some(block),
                    OnReject::Fail | OnReject::Continue => None,
                };
                approval.on_timeout.iter().chain(rejected).collect()
            }
            _ => Vec::new(),
        };
        if let OnError::Do(block) = &self.on_error {
            blocks.push(block);
        }
        blocks
    }

    /// Returns the blocks of the step, as [`blocks`](Self::blocks) does, to be changed.
    fn blocks_mut(&mut self) -> Vec<&mut Block> {
        let mut blocks: Vec<&mut Block> = match &mut self.kind {
            Kind::If { then, otherwise, .. } => std::iter::once(then).chain(otherwise).collect(),
            Kind::Switch(switch) => switch.cases.values_mut().chain(&mut switch.default).collect(),
            Kind::Loop(repetition) => vec![&mut repetition.body],
            Kind::Parallel(parallel) => parallel.branches.iter_mut().map(|(_, block)| block).collect(),
            Kind::Approval(approval) => {
                let rejected = match &mut approval.on_reject {
                    OnReject::Do(block) => Some(block),
                    OnReject::Fail | OnReject::Continue => None,
                };
                approval.on_timeout.iter_mut().chain(rejected).collect()
            }
            _ => Vec::new(),
        };
        if let OnError::Do(block) = &mut self.on_error {
            blocks.push(block);
        }
        blocks
    }
}
