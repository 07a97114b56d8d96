use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{
    AcceptedSignal, AttemptStatus, Decision, Lane, NewSignal, RunId, SignalKey, SignalOutcome, StepAttempt, StepKind,
    Timestamp, WaitNote, approval_signal, decision_of,
};
use workflow_engine::runtime::round_trip_for_caller;
use workflow_engine::store::{ApprovalCursor, ApprovalList, Outcome, WaitingApproval, Write};

use super::{Client, ClientError};

/// The most approvals that one call reads.
const MAX_APPROVALS: u32 = 1000;

/// The kind of an answer that a run waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalKind {
    /// An approval: yes or no.
    #[default]
    Approval,
    /// A decision of a flow: one of its options.
    Decision,
}

/// An approval or a decision that a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct PendingApproval {
    /// The run that waits.
    pub run_id: RunId,
    /// The run's queue, workflow and version.
    pub lane: Lane,
    /// The run's tags, by which a flow is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Whether the run waits for an approval or for a decision.
    #[serde(default)]
    pub kind: ApprovalKind,
    /// The key that [`Client::approve`] takes: the name of the approval, with `:1`, `:2`, ... for
    /// repeats in the run. Of a decision: the name of its step behind the names of the loops and
    /// branches around it, with such a number.
    pub key: String,
    /// The person or group that is asked.
    pub to: Option<String>,
    /// When the run began to wait.
    pub since: Timestamp,
    /// When the run stops waiting; `None` if it waits without a limit.
    pub until: Option<Timestamp>,
}

impl From<WaitingApproval> for PendingApproval {
    fn from(approval: WaitingApproval) -> Self {
        let note = approval.output.as_deref().and_then(|text| serde_json::from_str::<WaitNote>(text).ok());
        let WaitNote { until, to, .. } = note.unwrap_or_default();
        let WaitingApproval { run_id, lane, tags, step_key, kind, started_at: since, .. } = approval;
        let decision = decision_of(&step_key).filter(|_| kind == StepKind::Signal).map(str::to_owned);
        let (kind, key) = match decision {
            Some(key) => (ApprovalKind::Decision, key),
            None => (ApprovalKind::Approval, step_key),
        };
        Self { run_id, lane, tags, kind, key, to, since, until }
    }
}

/// A builder for a decision about an approval: set its options, then await it.
#[must_use = "nothing is decided until this is awaited"]
pub struct Decide {
    client: Client,
    run_id: RunId,
    key: String,
    decision: Decision,
}

impl Decide {
    pub(super) fn new(client: &Client, run_id: RunId, key: &str, approved: bool, by: String) -> Self {
        Self { client: client.clone(), run_id, key: key.to_owned(), decision: Decision::new(approved, by) }
    }

    /// Adds a note, which the run receives with the decision. Default: none.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.decision.note = Some(note.into());
        self
    }

    async fn send(self) -> Result<SignalOutcome, ClientError> {
        let Self { client, run_id, key, decision } = self;
        let since = match client.asked(run_id, &key).await? {
            Asked::Since(since) => since,
            Asked::Decided(first) => return Ok(SignalOutcome::Repeated(first)),
        };
        let subject = format!("decision about {key:?} of run {run_id}");
        let (payload, _) = round_trip_for_caller(&subject, &decision, client.payload_limit())?;
        let name = approval_signal(&key, since);
        // One key per approval: if two people decide at the same moment, the first decision counts.
        // A full inbox must not keep a decision out; there is one per approval.
        let signal = NewSignal { run_id, payload, key: SignalKey::Given(name.clone()), name, limit: None };
        match client.commit(Write::Signal(signal)).await? {
            Outcome::Signaled(SignalOutcome::Unknown) => Err(ClientError::UnknownRun { run_id }),
            Outcome::Signaled(outcome) => Ok(outcome),
            other => Err(ClientError::unexpected(other)),
        }
    }
}

impl IntoFuture for Decide {
    type Output = Result<SignalOutcome, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for Decide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decide").field("run_id", &self.run_id).field("key", &self.key).finish_non_exhaustive()
    }
}

/// The state of a request for an approval.
enum Asked {
    /// The run waits for the decision.
    Since(Timestamp),
    /// The run has taken this decision.
    Decided(AcceptedSignal),
}

/// Returns the decision about the approval with this key if this row of the run's history is the
/// one that took it.
fn decision_taken(run_id: RunId, key: &str, row: &StepAttempt) -> Option<AcceptedSignal> {
    if row.kind != StepKind::Approval || row.step_key != key || row.status != AttemptStatus::Succeeded {
        return None;
    }
    // One decision, or none after a timeout.
    let decisions: Vec<Decision> = serde_json::from_str(row.output.as_deref()?).ok()?;
    let payload = serde_json::to_string(decisions.first()?).ok()?;
    Some(AcceptedSignal::new(run_id, approval_signal(key, row.started_at), payload, row.completed_at?))
}

impl Client {
    /// Returns approvals that runs wait for, the longest waiting first; at most 1000. An approval
    /// that was decided stays in the list until a worker has resumed its run.
    ///
    /// # Errors
    /// [`ClientError::Database`] if the database cannot be reached.
    pub async fn approvals(&self) -> Result<Vec<PendingApproval>, ClientError> {
        self.read_approvals(None).await
    }

    /// Returns the approvals that this run waits for.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    pub async fn approvals_of(&self, run_id: RunId) -> Result<Vec<PendingApproval>, ClientError> {
        let approvals = self.read_approvals(Some(run_id)).await?;
        if approvals.is_empty() {
            self.run(run_id).await?;
        }
        Ok(approvals)
    }

    /// Approves what a run asks for, in the name of a person: see
    /// [`Ctx::approval`](crate::Ctx::approval). `key` is the key of a [`PendingApproval`]. Returns
    /// a builder: set its options, then await it.
    ///
    /// # Errors
    /// Awaiting the builder returns [`ClientError::NotAsked`] if the run does not wait for this
    /// approval and has taken no decision about it, [`ClientError::UnknownRun`], or
    /// [`ClientError::Database`]. The outcome [`SignalOutcome::Repeated`] means that a decision was
    /// made before, and [`AcceptedSignal::decision`] returns it. [`AcceptedSignal::accepted_at`] is
    /// the time of the decision, or, once the run has taken the decision, the time at which it did.
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the decision may or may not have been made. Making it
    /// again is safe.
    ///
    /// ```
    /// use workflow_sdk::{Client, ClientError, SignalOutcome};
    ///
    /// async fn approve_all(client: &Client, group: &str) -> Result<(), ClientError> {
    ///     for asked in client.approvals().await? {
    ///         if asked.to.as_deref() == Some(group) {
    ///             let decided = client.approve(asked.run_id, &asked.key, "ann");
    ///             if let SignalOutcome::Repeated(first) = decided.note("as agreed").await?
    ///                 && let Some(decision) = first.decision()
    ///             {
    ///                 println!("already {decision} at {}", first.accepted_at);
    ///             }
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn approve(&self, run_id: RunId, key: &str, by: impl Into<String>) -> Decide {
        Decide::new(self, run_id, key, true, by.into())
    }

    /// Rejects what a run asks for, in the name of a person. Works like [`Client::approve`].
    ///
    /// # Errors
    /// See [`Client::approve`].
    ///
    /// # Cancel safety
    /// See [`Client::approve`].
    pub fn reject(&self, run_id: RunId, key: &str, by: impl Into<String>) -> Decide {
        Decide::new(self, run_id, key, false, by.into())
    }

    async fn read_approvals(&self, run_id: Option<RunId>) -> Result<Vec<PendingApproval>, ClientError> {
        let after = ApprovalCursor::first();
        let mut list = ApprovalList { run: run_id, decisions: false, after, limit: MAX_APPROVALS };
        let mut approvals = Vec::new();
        loop {
            let listed = self.read(self.store().approvals(&list)).await?;
            list.limit = list.limit.saturating_sub(u32::try_from(listed.waiting.len()).unwrap_or(u32::MAX));
            approvals.extend(listed.waiting.into_iter().map(PendingApproval::from));
            match listed.end {
                Some(end) if list.limit > 0 => list.after = end,
                _ => return Ok(approvals),
            }
        }
    }

    /// A decision under a mistyped name would stay in the inbox for ever.
    async fn asked(&self, run_id: RunId, key: &str) -> Result<Asked, ClientError> {
        let pending = self.approvals_of(run_id).await?;
        if let Some(approval) = pending.iter().find(|approval| approval.key == key) {
            return Ok(Asked::Since(approval.since));
        }
        // The run may have taken a decision, and may have ended since.
        let history = self.read(self.store().history(run_id)).await?;
        if let Some(first) = history.iter().find_map(|row| decision_taken(run_id, key, row)) {
            return Ok(Asked::Decided(first));
        }
        let asked = pending.into_iter().map(|approval| approval.key).collect();
        Err(ClientError::NotAsked { run_id, key: key.to_owned(), asked })
    }
}
