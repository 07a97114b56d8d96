//! Reports of steps that are done outside, while their tools still hand the work over.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use workflow_flows::token::Tokens;
use workflow_flows::{ErrorClass, FlowClient, FlowRuntime, FlowStart, FlowStore, Flows, Report, ToolCall, ToolError};
use workflow_sdk::RunId;
use workflow_sdk::operate::{OperateError, OperateErrorCode, Order, OrderOutcome};
use workflow_tests::{Live, LocalWorker, until};

use crate::common::{Calls, flow_with, runtime, step, steps, with};

fn tokens() -> Tokens {
    Tokens::new(b"a secret of tokens, of 32 bytes at least").unwrap()
}

/// The other side of a tool. It has the work as soon as the tool is called, and answers the call
/// when it is told to.
#[derive(Clone)]
struct Desk {
    flows: Flows,
    live: Live,
    tokens: Arc<Mutex<Vec<String>>>,
    answers: Arc<Semaphore>,
}

impl Desk {
    fn new(db: &Live) -> Self {
        let flows = Flows::new(db.client.clone(), FlowStore::in_memory()).tokens(tokens());
        Self { flows, live: db.clone(), tokens: Arc::default(), answers: Arc::new(Semaphore::new(0)) }
    }

    /// Returns a runtime whose tool `desk` hands work over. The first of its calls fails if its
    /// arguments say so.
    fn tools(&self) -> FlowRuntime {
        let desk = self.clone();
        let hand_over = move |args: Value, call: ToolCall| {
            let number = {
                let mut tokens = desk.tokens.lock().unwrap();
                tokens.push(call.token.unwrap());
                tokens.len()
            };
            let answers = Arc::clone(&desk.answers);
            async move {
                answers.acquire().await.unwrap().forget();
                match number == 1 && args["fails"] == true {
                    true => Err(ToolError::new(ErrorClass::Unavailable, "the line is cut")),
                    false => Ok("handed over"),
                }
            }
        };
        runtime(&Calls::default()).tokens(tokens()).tool("desk", hand_over).build()
    }

    /// Waits until this call is under way, and returns the key that its token opens.
    async fn is_called(&self, number: usize) -> String {
        let what = format!("the desk gets work number {number}");
        let token = until(&what, async || self.tokens.lock().unwrap().get(number - 1).cloned()).await;
        self.flows.open_token(&token).unwrap().1
    }

    fn answer(&self) {
        self.answers.add_permits(1);
    }

    async fn report(&self, run: RunId, key: &str, result: &str) -> Result<OrderOutcome, OperateError> {
        let mut report = Report::default();
        report.result = Some(json!(result));
        let action = self.flows.done(run, key, report, "desk").await?;
        Ok(self.live.client.operate().perform(Order::new(action).actor("desk")).await?.outcome)
    }

    async fn is_refused(&self, run: RunId, key: &str) {
        let refused = self.report(run, key, "refused").await;
        assert_eq!(refused.as_ref().unwrap_err().code, OperateErrorCode::Conflict, "{key}: {refused:?}");
    }
}

fn outside(id: &str, args: Value) -> Value {
    step(id, json!({ "tool": { "tool": "desk", "args": args, "external": true } }))
}

pub async fn a_report_is_kept_while_the_work_is_handed_over(db: Live) {
    let desk = Desk::new(&db);
    let worker = LocalWorker::start(db.worker(desk.tools()).register(workflow_flows::flow));
    let gate = json!({ "approval": { "to": ["ops"], "title": "?", "notify": ["desk"] } });
    let body = json!({ "do": [outside("print", json!({})), outside("bind", json!({})), step("gate", gate)] });
    let output = json!({ "output": { "print": "{{steps.print}}", "bind": "{{steps.bind}}" } });
    let run = db.client.start_definition(FlowStart::new(flow_with(body, output))).await.unwrap();

    let print = desk.is_called(1).await;
    assert_eq!(desk.report(run.id(), &print, "printed").await.unwrap(), OrderOutcome::Signaled);
    let again = desk.report(run.id(), &print, "again").await.unwrap();
    assert!(matches!(again, OrderOutcome::AlreadySignaled { .. }), "{again:?}");
    desk.is_refused(run.id(), "bind").await;
    desk.answer();

    // The other side may know the run and the step without a token.
    desk.is_called(2).await;
    assert_eq!(desk.report(run.id(), "bind", "bound").await.unwrap(), OrderOutcome::Signaled);
    desk.is_refused(run.id(), &print).await;
    desk.answer();

    desk.is_called(3).await;
    desk.is_refused(run.id(), "bind").await;
    desk.is_refused(run.id(), "gate").await;
    desk.answer();
    let approvals = async || db.client.approvals_of(run.id()).await.unwrap().pop();
    until("the gate waits", approvals).await;
    db.client.approve(run.id(), "gate", "ops").await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!({ "print": "printed", "bind": "bound" }));
    desk.is_refused(run.id(), "bind").await;
    worker.stop().await;
}

pub async fn an_approval_is_answered_while_others_are_told(db: Live) {
    let desk = Desk::new(&db);
    let worker = LocalWorker::start(db.worker(desk.tools()).register(workflow_flows::flow));
    let gate = json!({ "approval": { "to": ["ann", "bob"], "title": "?", "notify": ["desk"] } });
    let run = db.client.start_definition(FlowStart::new(steps(json!([step("gate", gate)])))).await.unwrap();

    desk.is_called(1).await;
    let approvals = async || db.client.approvals_of(run.id()).await.unwrap().pop();
    until("the gate waits while its channel sends", approvals).await;
    db.client.approve(run.id(), "gate", "ann").await.unwrap();
    assert_eq!(run.result().await.unwrap()["by"], json!("ann"));
    worker.stop().await;
}

pub async fn a_report_for_a_hand_over_that_failed_is_dropped(db: Live) {
    let desk = Desk::new(&db);
    let worker = LocalWorker::start(db.worker(desk.tools()).register(workflow_flows::flow));
    let retry = json!({ "retry": { "attempts": 2, "backoff": { "constant": { "delay": 1 } } } });
    let definition = steps(json!([with(outside("print", json!({ "fails": true })), retry)]));
    let run = db.client.start_definition(FlowStart::new(definition)).await.unwrap();

    let first = desk.is_called(1).await;
    assert_eq!(desk.report(run.id(), &first, "of the first").await.unwrap(), OrderOutcome::Signaled);
    desk.answer();
    let second = desk.is_called(2).await;
    desk.answer();
    let waits_again = async || {
        let rows = run.history().await.unwrap();
        rows.iter().any(|row| row.step_key == "done:print:1").then_some(())
    };
    until("the report for the first hand-over is dropped", waits_again).await;
    desk.is_refused(run.id(), &first).await;
    assert_eq!(desk.report(run.id(), &second, "of the second").await.unwrap(), OrderOutcome::Signaled);
    assert_eq!(run.result().await.unwrap(), json!("of the second"));
    worker.stop().await;
}
