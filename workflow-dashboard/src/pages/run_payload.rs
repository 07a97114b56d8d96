//! The input and the output of a run, and payloads as files.

use axum::Extension;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use workflow_sdk::RunId;
use workflow_sdk::operate::{PayloadOf, RunDetail};

use crate::address::{Named, Parameters, refused};
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, panel, payload, status};

/// Draws both, side by side.
pub(super) fn draw(visit: &Visit, detail: &RunDetail) -> Markup {
    let place = |of: &str| visit.link(&format!("/runs/{}/payload?of={of}", detail.summary.id));
    let may_see = visit.actor.payloads;
    html! {
        div.data #data data-key="data" {
            section {
                h2 { "Input" }
                @match &detail.input {
                    Some(input) => (payload::show(input, Some(&place("input")), may_see)),
                    None => p.faint { "None." }
                }
            }
            section {
                h2 { "Output" }
                @match (&detail.output, detail.error.as_ref().filter(|_| may_see)) {
                    (Some(output), _) => (payload::show(output, Some(&place("output")), may_see)),
                    (None, Some(error)) => (panel::show_error(error)),
                    (None, None) => p.faint { "None yet." },
                }
            }
        }
    }
}

/// Which payload is downloaded.
#[derive(Debug, Deserialize)]
pub(crate) struct WhichPayload {
    of: String,
    step: Option<String>,
    attempt: Option<i64>,
}

/// `GET /runs/{run}/payload`: a payload as a whole, as a file.
pub(crate) async fn download(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Named(run): Named<RunId>,
    Parameters(which): Parameters<WhichPayload>,
) -> Result<Response, Problem> {
    if !visit.actor.payloads {
        return Err(Problem::forbidden("You do not see payloads.", "Ask a person that may."));
    }
    let of = match (which.of.as_str(), which.step) {
        ("input", _) => PayloadOf::Input,
        ("output", _) => PayloadOf::Output,
        ("step", Some(step)) => PayloadOf::Step { step, attempt: which.attempt.unwrap_or(1) },
        _ => return Err(refused("It is not clear which payload is meant.")),
    };
    let payload = shared.operate.payload(run, of).await?;
    let unreadable = || Problem::bad_input("The payload cannot be read.", "The page of the run says why.");
    let json = payload.json.ok_or_else(unreadable)?;
    let name = format!("attachment; filename=\"{}.json\"", status::short_id(run).replace('…', "-"));
    let headers = [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, json.as_str().to_owned()).into_response())
}
