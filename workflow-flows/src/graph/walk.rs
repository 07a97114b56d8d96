use super::{Block, Flow, Kind, LimitRule, OnError, OnReject, Step};

impl Flow {
    /// Calls `f` for each step of the flow, at any depth, in the order of the document.
    pub fn for_each_step<'f>(&'f self, mut f: impl FnMut(&'f Step)) {
        for block in [Some(&self.body), self.on_error.as_ref(), self.on_complete.as_ref()].into_iter().flatten() {
            block.walk(&mut f);
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
}
